"""Ctrl-C at any line of a step leaves the state before the step or the state after it, and the count says which."""

import signal
import sys

import numpy as np
import pytest

import npformer
from npformer.backend import get_backend
from npformer.models import Encoder, EncoderConfig
from npformer.optim import AdamW
from npformer.training import TrainStep

PACKAGE = npformer.__path__[0]
RANDOM = np.random.default_rng(0)
TOKENS, CLASSES = RANDOM.integers(1, 9, (3, 6, 5)), RANDOM.integers(1, 4, (3, 6))
TABLES = ["plain", "numpy", "numba"]
UPDATES = ("/optim/adam.py", "/training/signals.py")


@pytest.fixture(autouse=True)
def python_s_own_handler():
    """Whatever the tests were started by, Ctrl-C raises KeyboardInterrupt here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Subject:
    """A step, and its state after 0, 1, 2 and 3 steps that nobody interrupted."""

    def __init__(self, kernels, accumulate=1, **changes):
        config = EncoderConfig(9, num_classes=4, head="sequence", d_model=8, num_heads=2, d_ff=12, num_layers=1,
                               max_seq_len=5, dropout=0.1, **changes)  # fmt: skip
        if kernels == "numba":
            pytest.importorskip("numba")
        model = Encoder(
            config, backend=get_backend("numpy", kernels=kernels, threads=1 if kernels == "plain" else 2), seed=1
        )
        self.step = TrainStep(model, AdamW(model.arena, lr=0.01), clip_norm=0.5, accumulate=accumulate)
        optimizer, buffers = self.step.optimizer, [buffer.data for _, buffer in model.named_buffers()]
        self._arrays = [model.arena.values, optimizer.m, optimizer.v, *buffers]
        self.states = [self.state()]
        for i in range(3):
            self.step(TOKENS[i], CLASSES[i])
            self.states.append(self.state())

    def state(self):
        return [array.copy() for array in self._arrays]

    def go_to(self, number):
        self.step.optimizer.t = number
        for array, kept in zip(self._arrays, self.states[number], strict=True):
            array[...] = kept

    def expect_whole(self, where):
        """Its state is the one that the count names."""
        number = self.step.step_number
        for array, kept in zip(self._arrays, self.states[number], strict=True):
            assert np.array_equal(array, kept), f"line {where}: torn in step {number}"


def pressing_at(chosen, call):
    """Press Ctrl-C at these of the lines of npformer that call goes through; the lines it came to, by file."""
    lines = []

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            lines.append((frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_lineno))
            if len(lines) - 1 in chosen:
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return lines


def two_steps(subject):
    subject.step(TOKENS[1], CLASSES[1])
    subject.step(TOKENS[2], CLASSES[2])


def at_once(subject):
    subject.step.many([(TOKENS[1], CLASSES[1]), (TOKENS[2], CLASSES[2])])


def places(lines):
    """Where to press: each line of the updates and of what holds Ctrl-C back when first met, and some others."""
    close = {place: i for i, place in reversed([*enumerate(lines)]) if place[0] in UPDATES}
    return sorted({*close.values(), *range(0, len(lines), len(lines) // 20)})


@pytest.mark.parametrize(("make", "presses"), [(two_steps, 1), (at_once, 2)])
@pytest.mark.parametrize(
    ("kernels", "options"),
    [*((table, {}) for table in TABLES), ("numpy", {"norm": "batch"}), ("numpy", {"accumulate": 3})],
)
def test_the_state_is_the_one_that_the_count_names(kernels, options, make, presses):
    subject = Subject(kernels, **options)
    subject.go_to(1)
    found = set()
    for first in places(pressing_at((), lambda: make(subject))):
        subject.go_to(1)
        with pytest.raises(KeyboardInterrupt):
            pressing_at(range(first, first + presses), lambda: make(subject))
        subject.expect_whole(first)
        found.add(subject.step.step_number)
        for i in range(subject.step.step_number, 3):
            subject.step(TOKENS[i], CLASSES[i])
        subject.expect_whole(first)
    assert found == {1, 2, 3}
