"""What tests of compiled parts share: small kernels around them, compiled as the package compiles its own."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import npformer
from npformer.backend.select import numba_problem

PROBLEM = numba_problem()
PATIENCE = 600  # seconds until a test gives up on what would never happen


class SkippedFile(pytest.Module):
    """A file of tests for which Numba is missing."""

    def collect(self):
        pytest.skip(str(PROBLEM))


def pytest_pycollect_makemodule(module_path, parent):
    """Without Numba the files of this folder are skipped and the reason is shown; no file has to ask for it."""
    return None if PROBLEM is None else SkippedFile.from_parent(parent, path=module_path)


@pytest.fixture
def until():
    """until(true): wait until true() says so. Returns what it says."""

    def wait(true):
        pause, end = threading.Event(), time.monotonic() + PATIENCE
        while not true() and time.monotonic() < end:
            pause.wait(0.005)
        return true()

    return wait


@pytest.fixture(scope="session")
def run_apart():
    """run_apart(program, …): what it says on stdout, and the lines on stderr, in a process with this npformer.

    Or with a copy of it, in the folder package.
    """

    def run(program, package=Path(npformer.__file__).parent.parent, **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        variables |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
        done = subprocess.run([sys.executable, "-c", program], env=variables, cwd=package, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.splitlines()

    return run
