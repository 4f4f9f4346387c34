"""Sinks get the lines of metrics.jsonl; TensorBoard's own reader reads theirs, and one that fails stops no training."""

import csv
import subprocess
import sys

import pytest

from npformer.errors import ConfigError
from npformer.run import RunDirectory, sinks
from npformer.run.metrics import MetricsLog
from npformer.run.sinks import SINKS, Csv, Sinks, TensorBoard, expect_sinks
from tests.small_disk import mounted

RUN = {"kind": "run", "version": 1, "npformer": "0", "time": 99.5}
TRAIN = {"kind": "train", "learning_rate": 0.5, "grad_norm": 0.25, "tokens_per_second": 7.0}
LINES = [
    TRAIN | {"step": 1, "loss": 2.5, "time": 100.5, "elapsed": 1.0},
    {"step": 2, "kind": "gradient", "norm.embedding": 0.125, "time": 101.5, "elapsed": 2.0},
    {"step": 2, "kind": "eval", "loss": 2.0, "exact_match": 0.75, "examples": 9, "time": 102.5, "elapsed": 3.0},
    TRAIN | {"step": 3, "loss": float("nan"), "time": 103.5, "elapsed": 4.0},
]


@pytest.fixture
def run(tmp_path):
    """A run whose metrics end at step 2."""
    run = RunDirectory(tmp_path)
    log = MetricsLog(run.metrics_path)
    for line in [RUN, *LINES[:3]]:
        log.append(line)
    return run


def told(sink):
    """The sink, told of the last line."""
    sink.write(LINES[3])
    sink.close()


def test_a_table_holds_the_lines_of_training_and_evaluation(run):
    told(Csv(run, 2))
    with (run.path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["kind"], row["time"]) for row in rows] == [
        ("1", "train", "100.5"), ("2", "eval", "102.5"), ("3", "train", "103.5"),
    ]  # fmt: skip
    assert (rows[1]["exact_match"], rows[1]["learning_rate"], rows[2]["loss"]) == ("0.75", "", "nan")


def test_tensorboards_own_reader_reads_the_events(run):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("tensorboardX")
    first = TensorBoard(run, 0)
    for line in [RUN, *LINES[:3], {"step": 9, "kind": "eval", "loss": 7.0, "time": 1.0}]:
        first.write(line)
    first.close()
    told(TensorBoard(run, 2))
    found = accumulators.EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert set(found.Tags()["scalars"]) == {
        *(f"train/{name}" for name in ("loss", "learning_rate", "grad_norm", "tokens_per_second", "elapsed")),
        *(f"eval/{name}" for name in ("loss", "exact_match", "examples", "elapsed")),
        "gradient/norm.embedding", "gradient/elapsed",
    }  # fmt: skip
    rates = [(event.step, event.wall_time, event.value) for event in found.Scalars("train/learning_rate")]
    assert rates == [(1, 100.5, 0.5), (3, 103.5, 0.5)]
    losses = [(event.step, event.value) for event in found.Scalars("eval/loss")]
    assert losses == [(2, 2.0)], "what came after the step from which a run goes on does not count"


def test_an_evaluation_is_on_the_disk_when_the_call_returns(run):
    pytest.importorskip("tensorboardX")
    for kind, place in ((Csv, "metrics.csv"), (TensorBoard, "tensorboard/*")):
        sink = kind(run, 2)
        (file,) = run.path.glob(place)
        before = file.stat().st_size
        sink.write(LINES[2])
        assert file.stat().st_size > before
        sink.close()


class Broken:
    """Fails at the call of this number."""

    def __init__(self, at):
        self.at, self.calls, self.closed = at, 0, 0

    def write(self, record):
        self.calls += 1
        if self.calls == self.at:
            raise ValueError("no more room")

    def close(self):
        self.closed += 1
        raise OSError("not even that")


def test_a_sink_that_fails_is_told_once_and_left_out(run, monkeypatch):
    broken, whole, said = Broken(at=2), Broken(at=99), []
    whole.close = lambda: None
    monkeypatch.setattr(sinks, "SINKS", {"broken": lambda run, step: broken, "whole": lambda run, step: whole})
    several = Sinks(["broken", "whole"], said.append)
    several.open(run, 0)
    for line in LINES:
        several.write(line)
    several.close()
    assert said == ["warning: --log-to broken has failed and gets no more: no more room; the training goes on"]
    assert (broken.calls, broken.closed, whole.calls) == (2, 1, 4)


def test_a_sink_that_cannot_be_made_is_told(run):
    (run.path / "metrics.csv").mkdir()
    said = []
    several = Sinks(["csv"], said.append)
    several.open(run, 0)
    several.write(LINES[0])
    several.close()
    assert said == ["warning: --log-to csv has failed and gets no more: Is a directory; the training goes on"]


FULL = """
import sys
from pathlib import Path
from npformer.run import RunDirectory
from npformer.run.sinks import Sinks
said, line = [], {"kind": "train", "step": 1, "time": 1.0, "loss": 2.0}
sinks = Sinks([sys.argv[2]], said.append)
sinks.open(RunDirectory(Path(sys.argv[1])), 0)
for _ in range(5000):
    sinks.write(line)
sinks.close()
print(*said, sep="\\n")
"""


@pytest.mark.parametrize("name", SINKS)
def test_a_full_disk_stops_nothing(name, tmp_path):
    if name == "tensorboard":
        pytest.importorskip("tensorboardX")
    disk = tmp_path / "disk"
    disk.mkdir()
    words = [*mounted(disk, "size=16k"), sys.executable, "-c", FULL, str(disk), name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"warning: --log-to {name} has failed and gets no more: the disk is full; the training goes on\n"
    )


def test_names_are_checked_before_anything_is_made(monkeypatch):
    expect_sinks(["csv"])
    with pytest.raises(ConfigError, match=r"^--log-to: sink 'tensorbord' is unknown; did you mean 'tensorboard'\?"):
        expect_sinks(["csv", "tensorbord"])
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"tensorboardX, found none: .*pip install.*\[tensorboard\]"):
        expect_sinks(["tensorboard"])
