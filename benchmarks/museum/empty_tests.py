"""Tests that cannot fail: each passes on a wrong kernel, and the gradient check is asked at the same inputs.

They have the form in which they are found: a kernel, an input, a comparison with central differences.
"""

from typing import Any, NamedTuple

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.check import gradcheck
from npformer.check.report import WRONG
from npformer.errors import NpformerError


class EmptyTest(NamedTuple):
    """A test as found: which gradient of a pair it compares, for one upstream gradient."""

    op: str
    inputs: tuple[Any, ...]
    which: int
    dy: Any
    tolerance: float = 1e-6

    @property
    def pair(self):
        """The present kernel."""
        return tuple(getattr(F, f"{self.op}_{way}") for way in ("forward", "backward"))

    def passes(self):
        """Whether the kernel passes."""
        forward, backward = self.pair
        before, x, after = self.inputs[: self.which], self.inputs[self.which], self.inputs[self.which + 1 :]
        slopes = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = 1e-5
            above, below = (forward(*before, moved, *after)[0] for moved in (x + step, x - step))
            slopes[index] = np.sum(self.dy * (above - below)) / 2e-5
        dx = backward(self.dy, forward(*self.inputs)[1])[self.which]
        return np.allclose(dx, slopes, rtol=self.tolerance, atol=1e-8)

    def answer(self):
        """The gradient check's refusal, or its first row that is not right; "" if it finds nothing wrong."""
        try:
            return first_of(gradcheck(self.pair, *self.inputs, tolerance=self.tolerance, explain=False))
        except NpformerError as refused:
            return f"refused: {refused}"


def first_of(report):
    """The first wrong row, else the first that is not right, in a sentence; "" if all are right."""
    row = next(iter(sorted((row for row in report.rows if not row.ok), key=lambda row: row.verdict != WRONG)), None)
    if row is None:
        return ""
    if row.note:
        return f"the gradient of {row.tensor}: {row.verdict}, {row.note}"
    place = "along a direction" if row.by_direction else f"at {list(row.worst_index)}"
    backward, witness = in_digits(row.analytic, row.numeric)
    return f"the gradient of {row.tensor} {place}: backward says {backward}, the witness {witness}"


def in_digits(one, other):
    """Two numbers in as many digits as tell them apart."""
    texts = ([f"{number:.{digits}g}" for number in (one, other)] for digits in (4, 6, 9, 12, 15))
    return next((pair for pair in texts if pair[0] != pair[1]), (one, other))


def normal(*shape):
    """Random numbers, always the same."""
    return np.random.default_rng(11).normal(size=shape)


ROWS, W, B, Q = normal(3, 5), normal(4, 2), normal(2), normal(2, 2, 3, 4)
#: Name -> the test.
EMPTY_TESTS = {
    "ones upstream": EmptyTest("softmax", (ROWS,), 0, np.ones((3, 5))),
    "length one": EmptyTest("linear", (normal(2, 1, 4), normal(4, 3), normal(3)), 2, normal(2, 1, 3)),
    "gamma one": EmptyTest("layer_norm", (ROWS, np.ones(5), np.zeros(5)), 0, 2 * ROWS + 1),
    "zero inputs": EmptyTest("linear", (np.zeros((3, 4)), W, B), 1, normal(3, 2)),
    "wide tolerance": EmptyTest("linear", (normal(3, 4), W, B), 1, normal(3, 2), 1.5),
    "no dropout": EmptyTest("attention", (Q, Q, Q), 2, Q[::-1]),
}
