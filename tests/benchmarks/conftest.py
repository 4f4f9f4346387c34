"""Commands of benchmarks, in this process and in one of their own."""

import subprocess
import sys

import pytest

from benchmarks.harness import ROOT
from tests.cli.conftest import Outcome, argv


@pytest.fixture(scope="session")
def run():
    """The outcome of a benchmark, run as a user does: run("train_step --size tiny")."""

    def run_benchmark(line, *words):
        command = [sys.executable, "-m", *argv(f"benchmarks.{line}", *words)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=1800)
        return Outcome(done.returncode, done.stdout, done.stderr)

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
