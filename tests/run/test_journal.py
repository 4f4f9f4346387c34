"""What a run tells: lines with a version and times, callbacks, sinks; and what that costs, counted."""

import re
from pathlib import Path

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.run import RunDirectory, journal, metrics, sinks
from npformer.run.assemble import assemble
from npformer.run.begin import new_run
from npformer.run.journal import Listeners
from npformer.run.trained import load_latest
from tests.run.runs import SMALL, Told, small_sections, timeless

DOCS = Path(__file__).parents[2] / "docs" / "runs.md"
TRAINING = {"steps": 6, "batch_size": 4, "log_every": 2, "eval_every": 3, "eval_examples": 3, "final_examples": 5}
OPTIONS = {"run": {"task": "reverse", "device": "numpy"}, "model": SMALL, "training": TRAINING}


@pytest.fixture
def make(tmp_path):
    """make(listeners, **training): a trainer of a small run, always in the same folder."""

    def build(listeners=None, **training):
        parts = assemble(small_sections(training=TRAINING | training))
        return parts.trainer(RunDirectory(tmp_path), Told(), listeners)

    return build


def read(trainer):
    return metrics.read(trainer.run.metrics_path)


def test_the_file_begins_with_its_version_and_every_line_has_times(make, monkeypatch):
    clock = iter(np.arange(100.0, 10_000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("time.time", lambda: 1.5e9)
    trainer = make()
    trainer.train()
    first, *others = read(trainer)
    assert (first["kind"], first["version"], first["time"]) == ("run", 1, 1.5e9)
    assert {line["time"] for line in others} == {1.5e9}
    elapsed = [line["elapsed"] for line in others]
    assert elapsed == sorted(elapsed)
    assert elapsed[0] > 0


def test_elapsed_goes_on_where_a_resumed_run_was(make, monkeypatch):
    make().train()
    first = read(make())
    monkeypatch.setattr(journal, "now", lambda: 1000.0)
    monkeypatch.setattr(journal, "since", lambda began: 0.5)
    trainer = make(steps=8)
    trainer.restore(load_latest(trainer.run))
    trainer.train()
    again = read(trainer)
    assert again[: len(first)] == first, "one line of the version alone"
    assert {line["elapsed"] for line in again[len(first) :]} == {round(first[-1]["elapsed"] + 0.5, 3)}


def test_every_field_is_on_the_page(make):
    page = DOCS.read_text(encoding="utf-8")
    trainer = make()
    trainer.train()
    fields = {re.sub(r"\..*", ".PART", name) for line in read(trainer) for name in line}
    fields |= {"accuracy", "bits_per_character"}  # of other tasks
    assert [name for name in sorted(fields) if f"| `{name}` |" not in page] == []
    assert f"version {journal.VERSION}" in page


def test_callbacks_are_told_of_steps_and_evaluations(make):
    steps, found = [], []
    trainer = make(Listeners(on_step=steps.append, on_evaluate=found.append))
    rates = [trainer.step.schedule(number) for number in range(1, 7)]
    trainer.train()
    assert [(step.step, step.learning_rate) for step in steps] == list(zip(range(1, 7), rates, strict=True))
    lines = read(trainer)
    assert found == [line for line in lines if line["kind"] == "eval"]
    means = [line["loss"] for line in lines if line["kind"] == "train"]
    losses = [float(step.loss) for step in steps]
    assert means == pytest.approx([losses[0], losses[1], np.mean(losses[2:4]), np.mean(losses[4:])], rel=1e-6)
    assert float(steps[-1].grad_norm) == next(line for line in lines[::-1] if "grad_norm" in line)["grad_norm"]


class Counting:
    """A sink that counts."""

    def __init__(self, run, step):
        self.lines, self.closed = [], 0
        self.step = step

    def write(self, record):
        self.lines.append(record)

    def close(self):
        self.closed += 1


def test_listeners_change_no_bit_and_cost_no_read_of_the_device(make, monkeypatch, tmp_path):
    """A device is waited for where its numbers are read: nothing reads them for a callback or a sink."""
    made, read_off = [], []
    monkeypatch.setitem(sinks.SINKS, "counting", lambda *args: made.append(Counting(*args)) or made[-1])
    host = type(assemble(small_sections()).step.model.backend).host
    monkeypatch.setattr("npformer.backend.Backend.host", lambda self, x: read_off.append(1) or host(self, x))
    ends = []
    for listeners in (None, Listeners(lambda step: None, lambda line: None, ["counting"])):
        read_off.clear()
        trainer = make(listeners)
        trainer.train()
        ends.append((trainer.step.model.arena.values.copy(), len(read_off), list(map(timeless, read(trainer)))))
        trainer.run.metrics_path.unlink()
    assert np.array_equal(ends[0][0], ends[1][0])
    assert ends[0][1:] == ends[1][1:]
    (sink,) = made
    assert [timeless(line) for line in sink.lines] == ends[1][2][1:], "one call for each line, none for each step"
    assert (sink.step, sink.closed) == (0, 1)


def test_new_run_makes_a_run_like_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = []
    run = new_run(OPTIONS, on_evaluate=found.append, log_to=["csv"]).train()
    assert {path.name for path in run.iterdir()} == {
        "config.toml", "metrics.jsonl", "metrics.csv", "vocabulary.txt", "checkpoints", "lock",
        "curves.svg", "attention.svg", "report.html",
    }  # fmt: skip
    assert [line["step"] for line in found] == [3, 6]
    with new_run(OPTIONS, "other") as trainer:
        trainer.train()
    assert (trainer.run.path / "report.html").exists()
    shown = trainer, trainer.step, trainer.step.model.arena, *dict(trainer.step.model.named_parameters()).values()
    assert "object at" not in repr(shown)


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({"train": {}}, {}, r"^options: expected sections of run, data, model, training, each .*, got 'train'$"),
        ({"training": {"steps": "4"}}, {}, r"steps: expected a whole number, got '4'"),
        ({}, {"log_to": ["wandb"]}, r"^--log-to: sink 'wandb' is unknown. Expected one of: csv, tensorboard"),
    ],
)
def test_new_run_refuses_before_anything_is_written(options, more, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        new_run(options, **more)
    assert list(tmp_path.iterdir()) == []
