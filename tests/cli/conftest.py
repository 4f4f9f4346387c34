"""Shared by tests of the command line: a way to call it, small options, and a finished run."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from npformer.cli.main import main
from npformer.run import metrics
from npformer.run.config_file import read_toml
from npformer.run.options import SECTIONS
from tests.run.runs import timeless

#: A small run.
SMALL = {
    "device": "numpy", "batch_size": 8, "norm_order": "post", "learning_rate": 0.002,
    "d_model": 16, "d_ff": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "init": "xavier",
    "steps": 30, "save_every": 10, "eval_every": 15, "log_every": 7, "eval_examples": 10, "final_examples": 20,
}  # fmt: skip
#: What all small runs of a test have in common, whatever their task.
TINY = {"device": "numpy", "batch_size": 4, "d_model": 8, "d_ff": 8, "num_heads": 2, "steps": 4, "eval_examples": 3,
        "final_examples": 6}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        """What is on stdout, line by line."""
        return self.out.splitlines()

    @property
    def width(self):
        """The columns of the widest line on stdout."""
        return max(map(len, self.lines))

    @property
    def document(self):
        """The one JSON document on stdout."""
        return json.loads(self.out)

    def fine(self):
        """Itself, if the command succeeded."""
        assert self.code == 0, self.err
        return self

    def quiet(self):
        """Itself, if the command succeeded and had nothing to say on stderr."""
        assert (self.code, self.err) == (0, ""), self.err
        return self

    def refused(self, *words):
        """Bad input: exit 2, nothing on stdout, no traceback, and a message with these words."""
        assert (self.code, self.out) == (2, ""), self
        assert "Traceback" not in self.err
        self.warns(*words)

    def says(self, *words):
        """Itself, if these words are on stdout."""
        for word in words:
            assert word in self.out, f"expected {word!r} in: {self.out}"
        return self

    def warns(self, *words):
        """Itself, if these words are on stderr."""
        for word in words:
            assert word in self.err, f"expected {word!r} in: {self.err}"
        return self


def argv(line, *words):
    """The words of a command: a line as it is typed, and what may hold blanks after it."""
    return [*shlex.split(str(line)), *map(str, words)]


def assignments(options):
    return [word for key, value in options.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def small():
    """The options of a small run, with changes, as words of a command."""
    return lambda **changes: assignments(SMALL | changes)


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(line="", *words):
        capsys.readouterr()
        try:
            code = main(argv(line, *words))
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def terminal(monkeypatch):
    """terminal(columns, stream="stdout"): a command's output is a terminal of so many columns."""

    def use(columns, stream="stdout"):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)

    return use


@pytest.fixture
def train_small(cli, small):
    """Train a small run, with changes of its options: train_small("copy --out run", steps=2)."""
    return lambda line, *words, **changes: cli(f"train {line}", *words, *small(**changes))


@pytest.fixture
def environment():
    """The environment for commands in a new process, the same wherever the tests run.

    One thread, since results depend on the number of threads in the last bits; buffered output, as for users.
    """
    variables = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | variables


@pytest.fixture
def shell(tmp_path, environment):
    """Run a command in a new process, in an empty folder."""

    def call(line, *words, **options):
        command = [sys.executable, "-m", "npformer", *argv(line, *words)]
        options = {"capture_output": True, "cwd": tmp_path, "env": environment, "timeout": 600} | options
        done = subprocess.run(command, text=True, encoding="utf-8", **options)
        return Outcome(done.returncode, done.stdout or "", done.stderr or "")

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a finished small run of `reverse`, with dropout; not to be changed."""
    path = tmp_path_factory.mktemp("trained") / "reverse"
    assert main(["train", "reverse", "--out", str(path), *assignments(SMALL | {"dropout": 0.2})]) == 0
    return path


@pytest.fixture
def same_run():
    """Fails unless two runs ended alike: the last checkpoint to the bit, all metrics but the speed."""

    def check(one, other):
        for name in ("arrays.safetensors", "state.json"):
            files = (max((run / "checkpoints").glob("step-*")) / name for run in (one, other))
            digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
            assert len(digests) == 1, f"{name} differs"  # digests, since a diff of two such files takes minutes
        records = [[timeless(record) for record in metrics.read(path / "metrics.jsonl")] for path in (one, other)]
        assert records[0] == records[1]
        assert len(records[0]) > 4, "too little happened to compare"

    return check


@pytest.fixture
def contents():
    """Every file below a folder, and the SHA-256 of its bytes."""

    def look(folder):
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    return look


@pytest.fixture
def unchanged(contents):
    """Within this context nothing changes in a folder."""

    @contextmanager
    def watch(folder):
        before = contents(folder)
        yield
        assert contents(folder) == before

    return watch


@pytest.fixture
def resume(cli, run):
    """Continue the run of a test; the line holds further words of the command."""
    return lambda line="": cli("train --resume", run, *shlex.split(line))


@pytest.fixture
def copied(trained, tmp_path):
    """copied(name): a copy of the finished run, to be changed."""
    return lambda name: Path(shutil.copytree(trained, tmp_path / name))


def options_of(run):
    """The options that a run has kept, by section."""
    return read_toml(run / "config.toml", SECTIONS)
