"""Clocks that stand still or go back: no rate is divided by zero, no duration is negative, every loop ends."""

import itertools
import json
import math

import pytest

from npformer.cli.main import main
from npformer.io import seconds
from npformer.run import metrics
from npformer.training.bench import Repetitions, profile_step, time_steps
from tests.cli.conftest import assignments
from tests.run.runs import PRESET, SMALL

CLOCKS = {
    "stands still": lambda: itertools.repeat(7.0),
    "goes back": lambda: itertools.count(7.0, -1.0),
    "is set back now and then": lambda: itertools.cycle([5.0, 5.0, 9.0, 2.0, 2.0]),
}


@pytest.fixture(params=CLOCKS)
def clock(request, monkeypatch):
    """The system's clock, out of order."""
    ticks = CLOCKS[request.param]()
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))


def test_a_duration_is_positive_and_a_rate_finite_or_unknown(clock):
    for _ in range(20):
        began = seconds.now()
        assert seconds.since(began) > 0
        assert math.isfinite(1 / seconds.since(began))
        rate = seconds.rate(300, seconds.now())
        assert math.isnan(rate) or 0 < rate < 300


def test_a_rate_by_a_clock_that_goes_on(monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 104.0)
    assert (seconds.since(100.0), seconds.rate(300, 100.0)) == (4.0, 75.0)


def test_measuring_steps_comes_to_an_end(clock, alone):
    timing = time_steps(PRESET, alone, 0.0, Repetitions(seconds=5.0))
    assert min(timing.seconds) > 0
    assert timing.first > 0


def test_a_profile_has_shares(clock, alone):
    timing = profile_step(PRESET, alone, 0.0, Repetitions(steps=2))
    assert all(row.seconds >= 0 and math.isfinite(row.share) for row in timing.rows)
    assert timing.seconds > 0


def test_the_command_line_measures(clock, capsys):
    assert main(["bench", "--device", "numpy", "--kernels", "plain", "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"] == 1


def test_training_goes_on_and_its_speed_is_unknown(clock, tmp_path):
    run = tmp_path / "run"
    options = assignments(SMALL | {"steps": 4, "log_every": 1})
    assert main(["train", "reverse", "--out", str(run), *options]) == 0
    lines = [line for line in metrics.read(run / "metrics.jsonl") if line["kind"] == "train"]
    assert len(lines) == 4
    assert all(math.isnan(line["tokens_per_second"]) or line["tokens_per_second"] > 0 for line in lines)
