"""The clock: what it adds up, what it leaves alone, and that results stay the same to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.backend import Ops, Pair
from npformer.backend.timing import Clock, Part, timed_backend, timed_ops, timed_pair
from npformer.engine.engine import FastEngine
from npformer.functional import OPERATIONS
from npformer.models import Transformer
from npformer.models.presets import PRESETS
from npformer.optim import Adam
from npformer.training import TrainStep

X = np.ones((2, 3, 4))


class FakeTime:
    """Stands for the module time, and for a device whose waiting takes a second."""

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


@pytest.fixture
def fake(monkeypatch):
    clock = FakeTime()
    monkeypatch.setattr("npformer.io.seconds.time", clock)
    return clock


def test_a_call_is_timed_until_the_device_is_done(fake):
    clock = Clock(fake)
    pair = timed_pair("relu", Pair(fake.body, fake.body), clock)
    clock.start()
    _, cache = pair.forward(X)
    pair.forward(X)
    pair.backward(X, cache)
    timing = clock.stop()
    assert fake.events == ["wait", "body", "wait"] * 3
    assert {part: (tally.calls, tally.seconds) for part, tally in timing.items()} == {
        Part("relu", "forward"): (2, 22.0),  # ten for the kernel, one for the wait after it, twice
        Part("relu", "backward"): (1, 11.0),
    }


def test_a_stopped_clock_neither_waits_nor_remembers(fake):
    clock = Clock(fake)
    pair = timed_pair("relu", Pair(fake.body, fake.body), clock)
    _, cache = pair.forward(X)
    clock.start()
    clock.stop()
    pair.backward(X, cache)
    assert fake.events == ["body", "body"]
    assert clock.parts == {}


def test_start_begins_anew(alone):
    clock = Clock(alone.device)
    for calls in (2, 3):
        clock.start()
        for _ in range(calls):
            clock.time(Part("a", "forward"), abs, -1)
        assert clock.stop()[Part("a", "forward")].calls == calls


def test_every_operation_is_on_the_clock(alone):
    clock = Clock(alone.device)
    silent = Ops(**dict.fromkeys(OPERATIONS, Pair(lambda: (None, None), lambda dy, cache, into: None)))
    clock.start()
    watched = timed_ops(silent, clock)
    for pair in vars(watched).values():
        pair.backward(None, pair.forward()[1])
    assert set(clock.stop()) == {Part(name, way) for name in OPERATIONS for way in ("forward", "backward")}


def test_nothing_is_captured(alone):
    def broken(function):
        return lambda *inputs: 1 / 0

    engine = FastEngine(capture=broken, capture_part=broken)
    timed = timed_backend(replace(alone, engine=engine), Clock(alone.device)).engine
    assert timed.capture(abs)(-1) == timed.capture_part(abs)(-1) == 1


def test_a_timed_step_is_the_same_to_the_bit(alone):
    clock = Clock(alone.device)
    config, batch = PRESETS["tiny"].config(dropout=0.1), PRESETS["tiny"].example_batch()
    values = []
    for backend in (alone, timed_backend(alone, clock)):
        model = Transformer(config, backend=backend)
        clock.start()
        loss = TrainStep(model, Adam(model.arena))(*batch)
        values.append((float(loss), model.arena.values.tobytes()))
    assert values[0] == values[1]
    assert sum(tally.calls for tally in clock.stop().values()) > 50
