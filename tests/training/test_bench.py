"""Timing steps, and the profile of one: parts add up, and a slow part is seen where it is."""

from dataclasses import fields, replace

import numpy as np
import pytest

from npformer.backend import Ops, Pair, get_backend
from npformer.engine.engine import FastEngine
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.io import seconds
from npformer.models import Transformer
from npformer.models.presets import PRESETS
from npformer.optim import Adam
from npformer.training import TrainStep, bench
from npformer.training.bench import BETWEEN, Clock, Repetitions, profile_step, time_steps
from tests.run.runs import PRESET

X = np.ones((2, 3, 4))


class FakeTime:
    """Stands for the module time, which passes in functions that take some; and for a device: a wait takes a second."""

    def __init__(self):
        self.now = 0.0
        self.events = []

    def perf_counter(self):
        return self.now

    def synchronize(self):
        self.events.append("wait")
        self.now += 1.0

    def body(self, *inputs):
        self.events.append("body")
        self.now += 10.0
        return "y", "cache"

    def taken_by(self, function, seconds):
        """The function, which takes so long."""

        def slow(*inputs, **options):
            self.now += seconds
            return function(*inputs, **options)

        return slow


@pytest.fixture
def clock(monkeypatch):
    """What a profile looks at."""
    clock = FakeTime()
    monkeypatch.setattr(seconds, "time", clock)
    return clock


def with_ops(backend, **pairs):
    return replace(backend, ops=replace(backend.ops, **pairs))


def by_part(profile):
    return {(row.op, row.direction): row for row in profile.rows}


def test_what_each_part_takes(alone, clock, monkeypatch):
    """A forward one second, a backward two, an update three; from the third step on four seconds more."""
    steps, names = [], [field.name for field in fields(Ops)]
    pairs = {name: getattr(alone.ops, name) for name in names}
    taking = {name: Pair(clock.taken_by(p.forward, 1), clock.taken_by(p.backward, 2)) for name, p in pairs.items()}
    update = bench.Adam.step

    def one_more(*inputs):
        steps.append(1)
        clock.now += 4 if len(steps) > 3 else 0  # one to fill caches, two
        update(*inputs)

    monkeypatch.setattr(bench.Arena, "zero_grad", clock.taken_by(bench.Arena.zero_grad, 0.5))
    monkeypatch.setattr(bench.Adam, "step", clock.taken_by(one_more, 3))
    profile = profile_step(PRESET, with_ops(alone, **taking), 0.1, Repetitions(steps=4))
    for row in profile.rows:
        each = {"forward": 1, "backward": 2, "update": 3, "between": 0.5}[row.direction]
        assert row.seconds == pytest.approx(each * row.calls), row
    assert profile.seconds == pytest.approx(sum(row.seconds for row in profile.rows))
    assert (len(steps), profile.steps) == (5, 2)  # the quicker half


def test_calls_of_a_step(alone):
    rows = by_part(profile_step(PRESET, alone, 0.1, Repetitions(steps=1)))
    calls = {"feed_forward": 4, "attention": 6, "post_norm": 10, "linear": 15, "embedding": 2, "cross_entropy": 1}
    for op, number in calls.items():
        assert (rows[op, "forward"].calls, rows[op, "backward"].calls) == (number, number)
    assert rows["adam", "update"].calls == rows[BETWEEN].calls == 1


def test_threads_whose_times_overlap_are_refused():
    with pytest.raises(ConfigError, match=r"^backend: expected a single thread, .* got 2; get_backend\("):
        profile_step(PRESET, get_backend("numpy", kernels="plain", threads=2), 0.1, Repetitions(steps=1))


def test_timing_steps(alone):
    timing = time_steps(PRESET, alone, 0.0, Repetitions(steps=30))
    assert len(timing.seconds) == 30
    assert min(timing.seconds) > 0
    assert timing.last_loss < timing.first_loss  # the steps do train


def test_how_long_to_measure(monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 100.0)
    assert [Repetitions(steps=2).left(done, began=0.0) for done in (1, 2)] == [True, False]
    timed = Repetitions(seconds=5.0)
    assert [timed.left(done, began) for done, began in ((2, 0.0), (3, 0.0), (3, 96.0))] == [True, False, True]


def test_a_call_is_timed_until_the_device_is_done(clock, alone):
    pairs = {name: Pair(clock.body, clock.body) for name in OPERATIONS}
    watch = Clock(replace(alone, device=clock, ops=Ops(**pairs)))
    for pair in vars(watch.timed.ops).values():  # every operation is on the clock
        _, cache = pair.forward(X)
        pair.forward(X)
        pair.backward(X, cache)
    assert clock.events == ["wait", "body", "wait"] * 3 * len(OPERATIONS)
    for name in OPERATIONS:  # ten for the kernel, one for the wait after it
        assert (watch.calls[name, "forward"], watch.seconds[name, "forward"]) == (2, 22.0)
        assert (watch.calls[name, "backward"], watch.seconds[name, "backward"]) == (1, 11.0)
    watch.restart()
    assert not watch.calls


def test_nothing_is_captured(alone):
    def broken(function):
        return lambda *inputs: 1 / 0

    engine = FastEngine(capture=broken, capture_part=broken)
    timed = Clock(replace(alone, engine=engine)).timed.engine
    assert timed.capture(abs)(-1) == timed.capture_part(abs)(-1) == 1


def test_a_timed_step_is_the_same_to_the_bit(alone):
    clock = Clock(alone)
    config, batch = PRESETS["tiny"].config(dropout=0.1), PRESETS["tiny"].example_batch()
    values = []
    for backend in (alone, clock.timed):
        model = Transformer(config, backend=backend)
        clock.restart()
        loss = TrainStep(model, Adam(model.arena))(*batch)
        values.append((float(loss), model.arena.values.tobytes()))
    assert values[0] == values[1]
    assert sum(clock.calls.values()) > 50
