"""Blocks what a learner's code may not do. This is a fence, not a sandbox: it stops accidents and easy tricks.

Blocked, by a Python audit hook that ends the process at once:

- other programs, signals to other processes, the network, ``ctypes``;
- files opened for writing, created, removed, renamed, or changed in mode, time or owner; folders opened by
  descriptor, since a name below a descriptor (``dir_fd=``) does not show its location;
- npformer's own files, under any link or name, and libraries that hold or compute the answer;
- the grader's own objects, by ``gc``, by the frames of a call or of an error, by a trace.

The hook cannot be removed, and it is a closure that nothing else refers to: there is no
object to change and no exception to catch. ``limits.py`` bounds time, memory and the size of files.

Not blocked: a C extension module that does any of this itself; system calls that Python does not audit
(``os.mkfifo``, ``os.write`` to an open descriptor); code compiled under the name of a
library's file; results written directly to the grader's stream, which must still be the right gradient.
Run a file from a stranger in a container or a virtual machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

from limits import OWN, library  # type: ignore[import-not-found]

#: The grader's own event: code without a reference to the fence can use it to request a refusal.
REFUSE = "npformer.refuse"
EXIT = 3  # the exit code after a refusal
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

#: Events of sys.audit by reason; an entry that ends in a dot stands for all events that begin with it.
REFUSED = {
    "starts another program":
        "subprocess.Popen os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn os.startfile pty.spawn",
    "sends a signal": "os.kill os.killpg signal.pthread_kill",
    "changes files":
        "os.remove os.rename os.rmdir os.mkdir os.truncate os.link os.symlink os.chmod os.chown os.chflags os.lockf "
        "os.utime os.setxattr os.removexattr shutil.rmtree sqlite3.connect",
    "opens a network connection": "socket.",
    "looks into the grader":
        "gc.get_objects gc.get_referrers gc.get_referents sys._current_frames sys._current_exceptions sys.addaudithook "
        "sys.monitoring.register_callback",
}  # fmt: skip
#: Events that libraries need, so they are refused only if the learner's own code causes them.
REFUSED_TO_OWN = {"calls C by ctypes": "ctypes.", "looks into the grader": "sys._getframe sys.settrace"}
NAMED = ("changes files", "looks into the grader")  # reasons to which the event is added
FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
#: Library modules that act on behalf of their caller.
HANDING_ON = tuple(os.path.join(os.path.dirname(os.__file__), name) for name in ("inspect.py", "ctypes" + os.sep))


def fence(path: str, secret: str, banned: frozenset[str], stream: int) -> None:
    """Install the fence, for the life of the process.

    path: the learner's file. secret: a folder whose files are not to be read. banned: top-level packages not
    to be imported. stream: the descriptor for a refusal, reported as one line of JSON.
    """
    refuse, getframe = _refusal(path, stream), sys._getframe
    reasons, reasons_to_own, theirs = _reasons(REFUSED), _reasons(REFUSED_TO_OWN), library()
    opening = _opening(secret, banned)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        why = None
        if event == "open":
            why = opening(args[0], args[2] or 0)
        elif event == "import":
            why = f"imports {args[0]}" if args[0].partition(".")[0] in banned else None
        elif event == "object.__getattr__":
            why = "looks into the grader" if args[1] in FRAMES and _is_own(getframe(), theirs) else None
        elif event == REFUSE:
            why = str(args[0])
        elif event != "sys._getframe" or args[0].f_code is not code:  # else this hook itself is looking for the caller
            why = _found(event, reasons)
            if why is None and (asked := _found(event, reasons_to_own)) and _is_own(getframe(), theirs):
                why = asked
        if why is not None:
            refuse(why)

    code = hook.__code__
    sys.addaudithook(hook)


def _refusal(path: str, stream: int) -> Callable[[str], NoReturn]:
    """A function that reports the reason, with the line of the learner's file, and ends the process.

    It holds references to everything that it needs, so that replacements by the learner's code have no effect.
    """
    write, leave, as_json, getframe = os.write, os._exit, json.dumps, sys._getframe
    ended = False

    def refuse(why: str) -> NoReturn:
        nonlocal ended
        try:
            if not ended:  # the next lines raise audit events, too
                ended = True
                frame: FrameType | None = getframe()
                while frame is not None and frame.f_code.co_filename != path:
                    frame = frame.f_back
                line = frame.f_lineno if frame is not None else None
                told = {"refused": why, "line": line}
                write(stream, (as_json(told) + "\n").encode())
        finally:
            leave(EXIT)

    return refuse


def _reasons(table: Mapping[str, str]) -> dict[str, str]:
    """The reason for refusing each event, by its name, or by its prefix if that ends in a dot."""
    pairs = [(why, event) for why, events in table.items() for event in events.split()]
    return {event: f"{why} ({event})" if why in NAMED else why for why, event in pairs}


def _found(event: str, reasons: Mapping[str, str]) -> str | None:
    return reasons.get(event) or reasons.get(event.partition(".")[0] + ".")


def _opening(secret: str, banned: frozenset[str]) -> Callable[[Any, int], str | None]:
    """A function that returns the reason why a file (its name, the flags of open) may not be opened, or None."""
    secret, roots, real = os.path.join(os.path.realpath(secret), ""), library(), os.path.realpath
    own = os.path.join(real(OWN), "")

    def why_not(path: Any, flags: int) -> str | None:
        if not isinstance(path, str | bytes):  # a descriptor: opened before
            return None
        name = real(os.fsdecode(path))
        if flags & WRITING and name != os.devnull:
            return f"opens {os.path.basename(name)} for writing"
        if name.startswith(secret) and not name.startswith(own):
            return "reads npformer's own code"
        if os.path.isdir(name):
            return "opens a folder by its descriptor"
        for package in (
            name[len(root) :].split(os.sep)[0].partition(".")[0] for root in roots if name.startswith(root)
        ):
            if package in banned:
                return f"imports {package}"
        return None

    return why_not


def _is_own(frame: FrameType | None, theirs: tuple[str, ...]) -> bool:
    """Whether the learner's code caused the event; frame: the hook's."""
    frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_code.co_filename.startswith(HANDING_ON):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(theirs)
