"""Ctrl-C at random moments of a training step: does the state afterwards match the step counter?

    python -m benchmarks.faults.interrupts                200 interrupts inside a step with each table of kernels
    python -m benchmarks.faults.interrupts --kernels plain --interrupts 1000 --presses 2

A thread sends a real SIGINT while the main thread is in a step (or in two), whose
duration is measured before. An uninterrupted run gives the expected parameters, moments and running statistics
after each step. An interrupt is

    torn          if the state equals the state after no step
    miscounted    if the state belongs to another step than ``step_number`` says
    off course    if continued training does not end in the uninterrupted run's final state, bit for bit

The exit code is 1 if any interrupt is one of these.
"""

import random
import signal
import sys
import threading
import time
from collections import Counter

import numpy as np

from benchmarks.options import bare_parser
from npformer.backend import get_backend
from npformer.backend.select import numba_problem
from npformer.models import Encoder, EncoderConfig
from npformer.optim import AdamW
from npformer.training import TrainStep

STEPS = 4
BATCH, LENGTH, VOCABULARY, CLASSES = 16, 12, 50, 5
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


class Sender(threading.Thread):
    """Sends SIGINT at given times."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_inside = False  # whether the main thread is in a step
        self.sent_inside = 0
        self._go, self.done = threading.Semaphore(0), threading.Event()
        self._moments = ()

    def press_at(self, moments):
        """Send SIGINT at these times of time.perf_counter."""
        self._moments, self.sent_inside = moments, 0
        self.done.clear()
        self._go.release()

    def run(self):
        while True:
            self._go.acquire()
            for moment in self._moments:
                while (rest := moment - time.perf_counter()) > 0:
                    time.sleep(rest / 2 if rest > 1e-4 else 0)
                if self.is_inside:
                    self.sent_inside += 1
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self.done.set()


def interrupted(subject, sender, count, length, presses):
    """Make count steps that take length seconds and interrupt them. Returns whether an interrupt arrived in time."""
    was_obeyed = False
    try:
        try:
            now = time.perf_counter()
            sender.is_inside = True
            sender.press_at(sorted(now + random.uniform(0, length) for _ in range(presses)))
            subject.make(count)
        finally:
            sender.is_inside = False
            sender.done.wait()
    except KeyboardInterrupt:
        was_obeyed = True
    for _ in range(100):  # the second signal may arrive a little late
        try:
            time.sleep(0)
        except KeyboardInterrupt:
            was_obeyed = True
    if sender.sent_inside and not was_obeyed:
        raise RuntimeError("an interrupt was sent and never handled")
    return sender.sent_inside > 0


def seconds_of(subject, count):
    """The median time of count steps."""
    seconds = []
    for _ in range(5):
        subject.go_to(1)
        began = time.perf_counter()
        subject.make(count)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[2]


def measure(kernels, wanted, presses, sender):
    """Count the effects of so many interrupts."""
    subjects = [Subject(kernels, **options) for options in CASES.values()]
    lengths = {(i, count): seconds_of(subject, count) for i, subject in enumerate(subjects) for count in (1, 2)}
    verdicts = Counter()
    while sum(verdicts.values()) < wanted:
        (which, count), length = random.choice(list(lengths.items()))
        subject = subjects[which]
        subject.go_to(1)
        if interrupted(subject, sender, count, length, presses):
            verdicts[subject.verdict()] += 1
    return verdicts


def main():
    """Returns 0 if no interrupt did damage."""
    parser = bare_parser("faults.interrupts", __doc__.split("\n")[0], json=False)
    parser.add_argument("--kernels", nargs="+", default=["plain", "numpy", "numba"], help="tables of kernels")
    parser.add_argument("--interrupts", type=int, default=200, help="interrupts for each table (default 200)")
    parser.add_argument("--presses", type=int, nargs="+", default=[1, 2], help="presses of Ctrl-C, one after the other")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT for background jobs
    sys.setswitchinterval(1e-4)  # so that the sender thread wakes on time
    random.seed(0)
    sender = Sender()
    sender.start()
    harmed = 0
    print(f"{'kernels':<9}{'presses':>8}{'interrupts':>12}{'torn':>7}{'miscounted':>12}{'off course':>12}")
    for kernels in args.kernels:
        if kernels == "numba" and (problem := numba_problem()):
            print(f"numba    left out: {problem}")
            continue
        for presses in args.presses:
            measured = measure(kernels, args.interrupts, presses, sender)
            bad = [measured[name] for name in ("torn", "miscounted", "off course")]
            harmed += sum(bad)
            print(
                f"{kernels:<9}{presses:>8}{sum(measured.values()):>12}{bad[0]:>7}{bad[1]:>12}{bad[2]:>12}", flush=True
            )
    return 1 if harmed else 0


if __name__ == "__main__":
    raise SystemExit(main())
