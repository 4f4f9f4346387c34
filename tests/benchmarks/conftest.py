"""Makes the benchmarks importable: they are not part of the installed package."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run():
    """Runs a benchmark as a user does: run("train_step", "--size", "tiny")."""

    def run_benchmark(name, *arguments):
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=1800)

    return run_benchmark
