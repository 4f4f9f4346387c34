"""Starts a program that runs a user's code in a process apart, and ends it with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GRACE = 1.5  # extra seconds, so that the child's own limit strikes first and can report the line
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")}


@dataclass(frozen=True)
class Limits:
    """How long (seconds, wall clock) and in how much memory (bytes) code may run."""

    seconds: float = 10.0
    memory: int = 2 * 1024**3


def started(program: Path, folder: Path, prints: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A process of the program, a folder with a ``__main__.py`` that imports nothing of npformer, in this folder."""
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-X", "utf8", str(program)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=prints,
        cwd=folder, env=_environment(), start_new_session=True,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    """One thread, so that limits on memory and processes are meaningful; no Python settings of the user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | ONE_THREAD


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything that it started, by its session."""
    if process.poll() is not None and not hasattr(os, "killpg"):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
