"""Makes the benchmarks importable: they are not part of the installed package."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, argv

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def run():
    """Runs a benchmark as a user does: run("train_step --size tiny")."""

    def run_benchmark(line, *arguments):
        name, *words = line.split()
        command = [sys.executable, "-m", f"benchmarks.{name}", *words, *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=1800)

    return run_benchmark


@pytest.fixture
def call(monkeypatch, capsys):
    """call(main, "--size tiny"): the outcome of a benchmark's command in this process."""

    def call_here(main, line="", *words):
        monkeypatch.setattr(sys, "argv", ["benchmark", *argv(line, *words)])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as stopped:
            code = stopped.code
        return Outcome(code, *capsys.readouterr())

    return call_here


@pytest.fixture
def refused(monkeypatch, call):
    """refused(main, *words): what a command says that ends with code 2 and starts nothing."""

    def refuse(main, *words):
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("expected that nothing is started"))
        ended = call(main, *words)
        ended.refused()
        return ended.err

    return refuse
