"""Ctrl-C at any line of a step leaves the state before the step or the state after it, and the count says which."""

import signal
import sys

import pytest

import npformer
from tests.faults.interrupts import CASES, Subject

PACKAGE = npformer.__path__[0]
UPDATES = ("/optim/adam.py", "/training/held_interrupt.py")

pytestmark = pytest.mark.usefixtures("usual_signals")


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


def places(lines):
    """Where to press: each line of the updates and of what holds Ctrl-C back when first met, and some others.

    Not the very last ones: what was cached makes a later pass some lines shorter.
    """
    close = {place: i for i, place in reversed([*enumerate(lines)]) if place[0] in UPDATES}
    return sorted({*close.values(), *range(0, len(lines) - 99, len(lines) // 10), len(lines) - 100})


@pytest.mark.parametrize("presses", [1, 2])
@pytest.mark.parametrize(
    ("kernels", "options"),
    [("plain", {"threads": 1}), *(("numpy", case) for case in CASES.values()), ("numba", {})],
)
def test_the_state_is_the_one_that_the_count_names(kernels, options, presses):
    if kernels == "numba":
        pytest.importorskip("numba")
    subject = Subject(kernels, **options)
    subject.go_to(1)
    counts = set()
    for first in places(pressing_at((), lambda: subject.make(2))):
        subject.go_to(1)
        with pytest.raises(KeyboardInterrupt):
            pressing_at(range(first, first + presses), lambda: subject.make(2))
        counts.add(subject.step.step_number)
        assert subject.verdict() == "whole", f"line {first}"
    assert counts == {1, 2, 3} or (presses == 2 and counts == {1, 2})  # a second one is passed on at once
