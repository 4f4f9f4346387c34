"""A run is one folder: its options, its vocabulary, its metrics and its checkpoints, never overwritten.

runs/copy-001/
    config.toml  vocabulary.txt  metrics.jsonl
    classes.txt                   where texts or words are classified
    checkpoints/step-00000500/
        arrays.safetensors        the parameters, the optimiser's moments, running statistics, the sum of the losses
        state.json                the step, its score, the options, versions; random numbers follow from seed and step
    curves.svg  attention.svg  report.html    written at its end
    lock                          held by the training process; released by the system if it dies
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from npformer.errors import OutputError
from npformer.io.atomic_files import TEMPORARY, describe, make_folder, open_regular, sync_folder
from npformer.io.printable import shell_words, visible

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}


@dataclass(frozen=True)
class RunDirectory:
    """The files of a run. `create` and `open` check the disk."""

    path: Path

    @classmethod
    def create(cls, path: Path | None, default_root: Path, task: str) -> RunDirectory:
        """Create the folder path, or default_root/TASK-001 (the next free number) if there is no path.

        Parents are created as well. Raises OutputError if path holds anything but a lock file, is a file,
        or cannot be written to.
        """
        if path is None:
            path = _numbered(default_root, task)
        else:
            _make(path)
            _refuse_taken(path)
        _refuse_unwritable(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run, to resume or to decode with. Raises OutputError if path is not one.

        A pipe, a device or a folder in place of a file is refused too, since reading a pipe would block. A folder
        with checkpoints is a run even without config.toml, since each checkpoint holds the options.
        """
        run = cls(path)
        run._refuse_what_is_no_file()
        if run.config_path.is_file() or run.checkpoints.is_dir():
            return run
        if path.is_dir():
            problem = f"a folder without {run.config_path.name}"
        else:
            problem = "a file" if path.exists() else "nothing"
        near = [*path.parents, *(file.parent for file in sorted(path.glob("*/config.toml"), key=os.path.getmtime))]
        hint = next((f"; did you mean {run}?" for run in reversed(near) if (run / "checkpoints").is_dir()), "")
        raise OutputError(
            f"{path}: expected the folder of a run, with its {run.config_path.name}, found {problem}: "
            f"give the folder that `npformer train` printed at its start{hint}"
        )

    @property
    def config_path(self) -> Path:
        """The run's options."""
        return self.path / "config.toml"

    @property
    def metrics_path(self) -> Path:
        """One JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def vocabulary_path(self) -> Path:
        """One piece per line; the line number is the id."""
        return self.path / "vocabulary.txt"

    @property
    def classes_path(self) -> Path:
        """One class per line; the line number is the id."""
        return self.path / "classes.txt"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints, created by the first save."""
        return self.path / "checkpoints"

    def _refuse_what_is_no_file(self) -> None:
        for path in (self.config_path, self.vocabulary_path, self.classes_path, self.metrics_path):
            if os.path.lexists(path) and not path.is_file():
                raise OutputError(
                    f"{path}: expected a file of the run, found a pipe, a device, a folder or a link that leads "
                    "nowhere: move it away, and put the file back"
                )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run while training into it. Raises OutputError if another process holds it.

        The lock ends with the process, so a killed run leaves no lock behind. The file stays: if it
        were removed, two processes could lock two files of the same name.
        """
        with _writing(self.path / "lock"):
            descriptor = open_regular(self.path / "lock", os.O_RDWR | os.O_CREAT)
        try:
            _take(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    """Lock the open file and write the process id into it, for the error message of other processes."""
    with _writing(path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise OutputError(
                f"{path}: the run is in use by another process ({owner}): expected to be alone; "
                "wait for it or stop it, or start another run with --out"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            warnings.warn(
                f"{visible(path)}: this file system has no locks: make sure that only one process trains here",
                RuntimeWarning,
                stacklevel=4,
            )


def _numbered(root: Path, task: str) -> Path:
    """Create and return root/TASK-NNN with the next free number. Another process may do the same meanwhile."""
    stem = re.sub(r"[^\w.-]+", "-", task)
    _make(root)
    while True:
        matches = (re.fullmatch(rf"{re.escape(stem)}-(\d+)", name, re.ASCII) for name in _names(root))
        numbers = [int(match[1]) for match in matches if match]
        path = root / f"{stem}-{max(numbers, default=0) + 1:03d}"
        with _writing(root), suppress(FileExistsError):  # another run has just taken this number
            path.mkdir()
            sync_folder(root)
            return path


def _names(folder: Path) -> list[str]:
    with _writing(folder):
        return os.listdir(folder)


def _make(path: Path) -> None:
    with _writing(path):
        try:
            make_folder(path)
        except (FileExistsError, NotADirectoryError):
            raise OutputError(
                f"{path}: expected a folder or a free name, but a file is in the way: choose another --out"
            ) from None


def _refuse_taken(path: Path) -> None:
    """Raise OutputError if the folder holds more than a lock file, which a run that ended at once leaves."""
    taken = [name for name in _names(path) if name != "lock"]
    if taken:
        raise OutputError(
            f"{path}: expected a new or an empty folder, found {min(taken)!r} in it ({len(taken)} in all). Nothing is "
            "ever overwritten: choose another --out, or go on with that run: npformer train --resume "
            f"{shell_words(path)}"
        )


def _refuse_unwritable(path: Path) -> None:
    """Raise OutputError now, not at the first checkpoint hours later, if the folder is not writable."""
    probe = path / f"{TEMPORARY}{secrets.token_hex(6)}"
    with _writing(path):
        probe.touch(exist_ok=False)
        probe.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an OSError into an OutputError that names the place."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: expected to write there, got: {describe(error)}: choose another --out, or allow it"
        ) from error
