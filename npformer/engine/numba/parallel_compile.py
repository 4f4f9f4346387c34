"""Compiles several kernels at a time, one process per core, and reports progress.

Numba compiles one kernel at a time in a process. So each core gets a process, which compiles the kernels that it is
given and stores them on disk; this process then loads them. If a process fails, because it was killed or not started,
or because the disk is full, this process compiles its kernels itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from npformer.engine.numba.kernel_folder import VARIABLE, place
from npformer.engine.thread_pool import cores
from npformer.io.progress_bar import Bar, say
from npformer.io.seconds import now, since
from npformer.io.terminal import in_notebook, is_terminal

PACKAGE = Path(__file__).resolve().parents[3]  # the folder that npformer is in


def compile_several(kernels: Sequence[Any], dtype: str) -> None:
    """Compile these kernels (of ``compiling.Kernel``) for dtype, and report progress."""
    with Progress(len(kernels), dtype) as progress:
        if len(kernels) > 1:
            _compile_in_processes([kernel.name for kernel in kernels], dtype, progress)
        for kernel in kernels:
            if not kernel.load(dtype):
                kernel.compile(dtype)
                progress.done(kernel.name)


def _compile_in_processes(names: Sequence[str], dtype: str, progress: Progress) -> None:
    """Have other processes compile these kernels and store them on disk, as far as possible."""
    count, folder, queue = min(cores(), len(names)), place().to_write, deque(names)
    if count < 2 or folder is None or not sys.executable:
        return
    children: list[subprocess.Popen[str]] = []
    try:
        with suppress(OSError):
            children += (_child(dtype, folder) for _ in range(count))
        threads = [threading.Thread(target=_feed, args=(child, queue, progress), daemon=True) for child in children]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _child(dtype: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process that reads names of kernels, and compiles each into this folder."""
    paths = [str(PACKAGE), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {VARIABLE: str(folder.parent), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    program = f"from npformer.engine.numba.compiling import serve; serve({dtype!r})"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program], env=environment, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _feed(child: subprocess.Popen[str], queue: deque[str], progress: Progress) -> None:
    """Give a process one name after the other, until none is left or the process fails."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(OSError, IndexError):
        while True:
            name = queue.popleft()
            print(name, file=child.stdin, flush=True)
            if child.stdout.readline() != f"{name}\n":
                return
            progress.done(name)


class Progress:
    """Reports progress: a bar on a terminal, which goes at the end, and lines in a log.

    A notebook, and a terminal, show when several kernels begin and end. A notebook shows nothing of one: its checks
    compile one by one.
    """

    def __init__(self, total: int, dtype: str) -> None:
        self._total, self._done, self._began, self._alone = total, set[str](), now(), threading.Lock()
        self._speaks = total > 1 or not (is_terminal(sys.stderr) or in_notebook())
        kernels = "1 kernel" if total == 1 else f"{total} kernels"
        self._say(f"compiling {kernels} for {dtype}, once ...")
        self._bar = Bar(f"npformer: compiling {kernels} for {dtype}", total, sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def done(self, name: str) -> None:
        """Count a kernel as compiled, once: a process that could not store it may have reported it before."""
        with self._alone:
            if name in self._done:
                return
            self._done.add(name)
            self._bar.move()
            if self._total > 1 and not self._bar.is_drawn and not in_notebook():
                self._say(f"{len(self._done)} of {self._total}, {name}")

    def __exit__(self, kind: object, *_: object) -> None:
        self._bar.__exit__()
        if kind is None:
            self._say(f"compiled in {since(self._began):.0f} s")

    def _say(self, text: str) -> None:
        if self._speaks:
            say(f"npformer: {text}", sys.stderr)
