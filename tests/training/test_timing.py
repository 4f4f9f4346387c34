"""The clock: what it adds up, what it leaves alone, and that results stay the same to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.backend import Ops, Pair
from npformer.engine.engine import FastEngine
from npformer.functional import OPERATIONS
from npformer.models import Transformer
from npformer.models.presets import PRESETS
from npformer.optim import Adam
from npformer.training import TrainStep
from npformer.training.bench import Clock

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


def test_a_call_is_timed_until_the_device_is_done(fake, alone):
    pairs = {name: Pair(fake.body, fake.body) for name in OPERATIONS}
    clock = Clock(replace(alone, device=fake, ops=Ops(**pairs)))
    for pair in vars(clock.timed.ops).values():  # every operation is on the clock
        _, cache = pair.forward(X)
        pair.forward(X)
        pair.backward(X, cache)
    assert fake.events == ["wait", "body", "wait"] * 3 * len(OPERATIONS)
    for name in OPERATIONS:  # ten for the kernel, one for the wait after it
        assert (clock.calls[name, "forward"], clock.seconds[name, "forward"]) == (2, 22.0)
        assert (clock.calls[name, "backward"], clock.seconds[name, "backward"]) == (1, 11.0)
    clock.restart()
    assert not clock.calls


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
