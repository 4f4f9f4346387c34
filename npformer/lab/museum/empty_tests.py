"""Tests that cannot fail: each passes on a wrong kernel, and npformer's checker shows the error.

The tests have the form in which they are found: a kernel, an input, a comparison. Each omits something, so it passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.check import Report, gradcheck
from npformer.errors import NpformerError
from npformer.functional import Draw
from npformer.typing import HostArray

RNG_SEED = 11


@dataclass(frozen=True)
class EmptyTest:
    """A test as found, and npformer's answer."""

    passes: Callable[[], bool]  # the test, on the program's present kernel
    answer: Callable[[], str]  # the checker's answer for the same kernel; "" if it finds nothing wrong


def _normal(*shape: int) -> HostArray:
    return np.random.default_rng(RNG_SEED).normal(size=shape)


def _slope(f: Callable[[HostArray], HostArray], x: HostArray, upstream: HostArray) -> HostArray:
    """Central differences of Σ upstream·f(x), element by element."""
    slope = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-5
        slope[index] = np.sum(upstream * (f(x + step) - f(x - step))) / 2e-5
    return slope


def _said(check: Callable[[], Report]) -> str:
    """The checker's answer: its refusal, or its first row that is not right."""
    try:
        report = check()
    except NpformerError as refused:
        return f"refused: {refused}"
    bad = next((row for row in report.rows if not row.ok), None)
    if bad is None:
        return ""
    why = bad.note or f"at {list(bad.worst_index)} backward says {bad.analytic:.3g}, the witness {bad.numeric:.3g}"
    return f"{bad.tensor}: {bad.verdict} ({why})"


SOFTMAX = F.softmax_forward, F.softmax_backward
LINEAR = F.linear_forward, F.linear_backward
NORM = F.layer_norm_forward, F.layer_norm_backward
ATTENTION = F.attention_forward, F.attention_backward


def _agrees(
    pair: Any, inputs: tuple[HostArray, ...], which: int, dy: HostArray, rtol: float = 1e-6
) -> Callable[[], bool]:
    """The usual test: one gradient of the pair against central differences."""
    forward, backward = pair

    def passes() -> bool:
        dx = backward(dy, forward(*inputs)[1])[which]
        slope = _slope(lambda z: forward(*inputs[:which], z, *inputs[which + 1 :])[0], inputs[which], dy)
        return bool(np.allclose(dx, slope, rtol=rtol, atol=1e-8))

    return passes


def _sum_of_softmax(x: HostArray) -> tuple[HostArray, Any]:
    y, cache = F.softmax_forward(x)
    return y.sum(axis=-1), cache


def _back_from_sum(dy: HostArray, cache: Any) -> tuple[HostArray]:
    return F.softmax_backward(dy[..., None] * np.ones_like(cache.y), cache)


def _only_prints() -> bool:
    (dx,) = F.softmax_backward(ODD, F.softmax_forward(ROWS)[1])
    _ = f"max error {np.max(np.abs(dx - _slope(lambda z: F.softmax_forward(z)[0], ROWS, ODD)))}"
    return True  # a test without an assertion passes if it ends


def _with_itself() -> bool:
    (dx,) = F.softmax_backward(ODD, F.softmax_forward(ROWS)[1])
    dx_rows = [F.softmax_backward(dy, F.softmax_forward(x)[1])[0] for x, dy in zip(ROWS, ODD, strict=True)]
    return bool(np.allclose(dx, np.stack(dx_rows), rtol=1e-6, atol=1e-8))


def _shapes_only() -> bool:
    inputs = _normal(3, 5), _normal(5), _normal(5)
    gradients = F.layer_norm_backward(_normal(3, 5), F.layer_norm_forward(*inputs)[1])
    return [g.shape for g in gradients] == [x.shape for x in inputs]


def _off_by(q: HostArray) -> float:
    """The largest error of attention, by the formula with the scale of one head."""
    scores = q @ np.swapaxes(q, -1, -2) / np.sqrt(4)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return float(np.max(np.abs(F.attention_forward(q, q, q)[0] - weights @ q)))


def _two_heads() -> str:
    error = _off_by(Q)
    return f"with two heads the output is off by {error:.2g}" if error > 1e-9 else ""


def _asked(pair: Any, *inputs: HostArray, **options: Any) -> Callable[[], str]:
    return lambda: _said(lambda: gradcheck(pair, *inputs, **options))


ROWS, DY = _normal(3, 5), _normal(3, 2)
ODD = 2 * ROWS + 1  # an upstream gradient
SHORT = _normal(2, 1, 4), _normal(4, 3), _normal(3)
FRESH = ROWS, np.ones(5), np.zeros(5)
W, B = _normal(4, 2), _normal(2)
ZERO, RANDOM = (np.zeros((3, 4)), W, B), (_normal(3, 4), W, B)
Q = _normal(2, 2, 3, 4)
DRAW = Draw(seed=7, step=3, micro=0, site=5, rate=0.3)

EMPTY_TESTS: dict[str, EmptyTest] = {
    "ones upstream": EmptyTest(
        _agrees(SOFTMAX, (ROWS,), 0, np.ones((3, 5))), _asked((_sum_of_softmax, _back_from_sum), ROWS)
    ),
    "length one": EmptyTest(_agrees(LINEAR, SHORT, 2, _normal(2, 1, 3)), _asked(LINEAR, *SHORT)),
    "gamma one": EmptyTest(_agrees(NORM, FRESH, 0, ODD), _asked(NORM, *FRESH)),
    "zero inputs": EmptyTest(_agrees(LINEAR, ZERO, 1, DY), _asked(LINEAR, *ZERO)),
    "wide tolerance": EmptyTest(_agrees(LINEAR, RANDOM, 1, DY, 1.5), _asked(LINEAR, *RANDOM, tolerance=1.5)),
    "no assertion": EmptyTest(_only_prints, _asked(SOFTMAX, ROWS)),
    "with itself": EmptyTest(_with_itself, _asked(SOFTMAX, ROWS)),
    "shapes only": EmptyTest(_shapes_only, _asked(NORM, ROWS, _normal(5), _normal(5))),
    "no dropout": EmptyTest(_agrees(ATTENTION, (Q, Q, Q), 2, Q[::-1]), _asked(ATTENTION, Q, Q + 1, Q + 2, draw=DRAW)),
    "one head": EmptyTest(lambda: _off_by(_normal(2, 1, 3, 4)) <= 1e-8, _two_heads),
}
