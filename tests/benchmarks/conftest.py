"""Makes the benchmarks importable: they are not part of the installed package."""

import subprocess
import sys
from pathlib import Path

import pytest

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
def refused(monkeypatch, capsys):
    """refused(main, *words): what a command says that ends with code 2 and starts nothing."""

    def call(main, *words):
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("expected that nothing is started"))
        monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
        try:
            code = main()
        except SystemExit as stopped:
            code = stopped.code
        ended = capsys.readouterr()
        assert (code, ended.out) == (2, "")
        return ended.err

    return call
