"""Ctrl-C at random moments of a training step: does the state afterwards match the step counter?

A timer sends SIGINT within a step (or two), whose duration is measured before. An uninterrupted run gives the expected
parameters, moments and running statistics after each step. An interrupt is

    torn          if the state equals the state after no step
    miscounted    if the state belongs to another step than ``step_number`` says
    off course    if continued training does not end in the uninterrupted run's final state, bit for bit
"""

import itertools
import random
import signal
import statistics
import time
from collections import Counter

import numpy as np

from npformer.backend import get_backend
from npformer.backend.select import numba_problem
from npformer.models import Encoder, EncoderConfig
from npformer.optim import AdamW
from npformer.training import TrainStep

STEPS = 4
BATCH, LENGTH, VOCABULARY, CLASSES = 16, 12, 50, 5
BAD = ("torn", "miscounted", "off course")
CASES = {"one micro-batch": {}, "three micro-batches": {"accumulate": 3}, "BatchNorm": {"norm": "batch"}}


class Subject:
    """A training step, and its states after 0 to STEPS uninterrupted steps."""

    def __init__(self, kernels, accumulate=1, norm="layer", threads=2):
        config = EncoderConfig(
            VOCABULARY, num_classes=CLASSES, head="sequence", d_model=32, num_heads=2, d_ff=64, num_layers=2,
            max_seq_len=LENGTH, dropout=0.1, norm=norm,
        )  # fmt: skip
        model = Encoder(config, backend=get_backend("numpy", kernels=kernels, threads=threads), seed=0)
        self.step = TrainStep(model, AdamW(model.arena, lr=1e-3), clip_norm=1.0, accumulate=accumulate)
        numbers, most = np.random.default_rng(0), STEPS
        self.batches = [
            (numbers.integers(1, VOCABULARY, (BATCH, LENGTH)), numbers.integers(1, CLASSES, BATCH)) for _ in range(most)
        ]
        optimizer, buffers = self.step.optimizer, [buffer.data for _, buffer in model.named_buffers()]
        self._arrays = [model.arena.values, optimizer.m, optimizer.v, *buffers]
        self._states = [self._state()]
        for batch in self.batches:
            self.step(*batch)
            self._states.append(self._state())

    def _state(self):
        return b"".join(array.tobytes() for array in self._arrays)

    def go_to(self, number):
        self.step.optimizer.t, start = number, 0
        for array in self._arrays:
            kept = np.frombuffer(self._states[number], array.dtype, array.size, start)
            array[...] = kept.reshape(array.shape)
            start += array.nbytes

    def make(self, count):
        """Make count steps."""
        first = self.step.step_number
        for batch in self.batches[first : first + count]:
            self.step(*batch)

    def verdict(self):
        """The effect of the interrupt; if it was harmless so far, training continues to the end."""
        state, number = self._state(), self.step.step_number
        if state not in self._states:
            return "torn"
        if state != self._states[number]:
            return "miscounted"
        for batch in self.batches[number:]:
            self.step(*batch)
        return "whole" if self._state() == self._states[STEPS] else "off course"


def interrupted(subject, count, length, presses):
    """Make count steps that take length seconds, with Ctrl-C at a random moment. Returns whether it came in time.

    Two presses come one shortly after the other; those that are late are let pass.
    """
    is_inside, sent = True, 0

    def press(number, frame):
        nonlocal sent
        if is_inside and sent < presses:
            sent += 1
            signal.raise_signal(signal.SIGINT)

    before, was_obeyed = signal.signal(signal.SIGALRM, press), False
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, length), length / 20)
            subject.make(count)
        finally:
            is_inside = False
    except KeyboardInterrupt:
        was_obeyed = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    if sent and not was_obeyed:
        raise RuntimeError("an interrupt was sent and never handled")
    return was_obeyed


def seconds_of(subject, count):
    """The median time of count steps."""
    seconds = []
    for _ in range(5):
        subject.go_to(1)
        began = time.perf_counter()
        subject.make(count)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def measure(kernels, wanted, presses):
    """Count the effects of so many interrupts."""
    subjects = [Subject(kernels, **options) for options in CASES.values()]
    lengths = {(i, count): seconds_of(subject, count) for i, subject in enumerate(subjects) for count in (1, 2)}
    verdicts = Counter()
    while sum(verdicts.values()) < wanted:
        (which, count), length = random.choice(list(lengths.items()))
        subject = subjects[which]
        subject.go_to(1)
        if interrupted(subject, count, length, presses):
            verdicts[subject.verdict()] += 1
    return verdicts


def injected(count, kernels):
    """The table: a row for each table of kernels, and for one press and for two."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT for background jobs
    random.seed(0)
    rows = []
    for table, presses in itertools.product(kernels, (1, 2)):
        if table != "numba" or numba_problem() is None:
            found = measure(table, count, presses)
            rows.append([table, presses, count, *(found[name] for name in BAD)])
    return ("kernels", "presses", "interrupts", *BAD), rows, any(sum(row[3:]) for row in rows)
