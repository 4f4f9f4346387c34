"""Tests that cannot fail: each passes on a wrong kernel, and npformer's checker shows the error.

The tests have the form in which they are found: a kernel, an input, a comparison. Each omits something, so it passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.errors import NpformerError
from npformer.functional import Draw
from npformer.proof import Report, gradcheck
from npformer.typing import HostArray

RNG_SEED = 11


@dataclass(frozen=True)
class EmptyTest:
    """A test as found, and npformer's answer."""

    passes: Callable[[], bool]  # the test, on the program's present kernel
    answer: Callable[[], str]  # the checker's answer for the same kernel; "" if it finds nothing wrong


def _normal(*shape: int) -> HostArray:
    return np.random.default_rng(RNG_SEED).normal(size=shape)


def _slope(f: Callable[[HostArray], HostArray], x: HostArray, upstream: HostArray | float) -> HostArray:
    """Central differences of Σ upstream·f(x), element by element."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-5
        found[index] = np.sum(upstream * (f(x + step) - f(x - step))) / 2e-5
    return found


def _close(a: HostArray, b: HostArray, rtol: float = 1e-6) -> bool:
    return bool(np.allclose(a, b, rtol=rtol, atol=1e-8))


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


def _all_ones() -> bool:
    x = _normal(3, 5)
    y, cache = F.softmax_forward(x)
    return _close(F.softmax_backward(np.ones_like(y), cache)[0], _slope(lambda z: F.softmax_forward(z)[0], x, 1.0))


def _sum_of_softmax(x: HostArray) -> tuple[HostArray, Any]:
    y, cache = F.softmax_forward(x)
    return y.sum(axis=-1), cache


def _back_from_sum(dy: HostArray, cache: Any) -> tuple[HostArray]:
    return F.softmax_backward(dy[..., None] * np.ones_like(cache.y), cache)


def _at_length_one() -> bool:
    x, w, b, dy = _normal(2, 1, 4), _normal(4, 3), _normal(3), _normal(2, 1, 3)
    db = F.linear_backward(dy, F.linear_forward(x, w, b)[1])[2]
    return _close(db, _slope(lambda z: F.linear_forward(x, w, z)[0], b, dy))


def _at_gamma_one() -> bool:
    x, gamma, beta, dy = _normal(3, 5), np.ones(5), np.zeros(5), 2 * _normal(3, 5) + 1
    dx = F.layer_norm_backward(dy, F.layer_norm_forward(x, gamma, beta)[1])[0]
    return _close(dx, _slope(lambda z: F.layer_norm_forward(z, gamma, beta)[0], x, dy))


def _at_zero() -> bool:
    x, w, b, dy = np.zeros((3, 4)), _normal(4, 2), _normal(2), _normal(3, 2)
    dw = F.linear_backward(dy, F.linear_forward(x, w, b)[1])[1]
    return _close(dw, _slope(lambda z: F.linear_forward(x, z, b)[0], w, dy))


def _within_anything() -> bool:
    x, w, b, dy = _normal(3, 4), _normal(4, 2), _normal(2), _normal(3, 2)
    dw = F.linear_backward(dy, F.linear_forward(x, w, b)[1])[1]
    return _close(dw, _slope(lambda z: F.linear_forward(x, z, b)[0], w, dy), rtol=1.5)


def _only_prints() -> bool:
    x, dy = _normal(3, 5), 2 * _normal(3, 5) + 1
    dx = F.softmax_backward(dy, F.softmax_forward(x)[1])[0]
    _ = f"max error {np.max(np.abs(dx - _slope(lambda z: F.softmax_forward(z)[0], x, dy)))}"
    return True  # a test without an assertion passes if it ends


def _with_itself() -> bool:
    x, dy = _normal(3, 5), 2 * _normal(3, 5) + 1
    cache = F.softmax_forward(x)[1]
    rows = [F.softmax_backward(dy[i], F.softmax_forward(x[i])[1])[0] for i in range(3)]
    return _close(F.softmax_backward(dy, cache)[0], np.stack(rows))


def _shapes_only() -> bool:
    x, gamma, beta = _normal(3, 5), _normal(5), _normal(5)
    found = F.layer_norm_backward(_normal(3, 5), F.layer_norm_forward(x, gamma, beta)[1])
    return [g.shape for g in found] == [x.shape, gamma.shape, beta.shape]


def _without_dropout() -> bool:
    q, dout = _normal(2, 2, 3, 4), _normal(2, 2, 3, 4)[::-1]
    dv = F.attention_backward(dout, F.attention_forward(q, q, q)[1])[2]
    return _close(dv, _slope(lambda z: F.attention_forward(q, q, z)[0], q, dout))


def _with_one_head() -> bool:
    q = _normal(2, 1, 3, 4)
    scores = q @ np.swapaxes(q, -1, -2) / np.sqrt(4)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return _close(F.attention_forward(q, q, q)[0], weights @ q)


def _two_heads() -> str:
    q = _normal(2, 2, 3, 4)
    scores = q @ np.swapaxes(q, -1, -2) / np.sqrt(4)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    error = float(np.max(np.abs(F.attention_forward(q, q, q)[0] - weights @ q)))
    return f"with two heads the output is off by {error:.2g}" if error > 1e-9 else ""


def _asked(pair: Any, *inputs: HostArray, **options: Any) -> Callable[[], str]:
    return lambda: _said(lambda: gradcheck(pair, *inputs, **options))


X, W, B = _normal(3, 4), _normal(4, 2), _normal(2)
Q = _normal(2, 2, 3, 4)
DRAW = Draw(seed=7, step=3, micro=0, site=5, rate=0.3)

EMPTY_TESTS: dict[str, EmptyTest] = {
    "ones upstream": EmptyTest(_all_ones, _asked((_sum_of_softmax, _back_from_sum), _normal(3, 5))),
    "length one": EmptyTest(_at_length_one, _asked(LINEAR, _normal(2, 1, 4), _normal(4, 3), _normal(3))),
    "gamma one": EmptyTest(_at_gamma_one, _asked(NORM, _normal(3, 5), np.ones(5), np.zeros(5))),
    "zero inputs": EmptyTest(_at_zero, _asked(LINEAR, np.zeros((3, 4)), W, B)),
    "wide tolerance": EmptyTest(_within_anything, _asked(LINEAR, X, W, B, tolerance=1.5)),
    "no assertion": EmptyTest(_only_prints, _asked(SOFTMAX, _normal(3, 5))),
    "with itself": EmptyTest(_with_itself, _asked(SOFTMAX, _normal(3, 5))),
    "shapes only": EmptyTest(_shapes_only, _asked(NORM, _normal(3, 5), _normal(5), _normal(5))),
    "no dropout": EmptyTest(_without_dropout, _asked(ATTENTION, Q, Q + 1, Q + 2, draw=DRAW)),
    "one head": EmptyTest(_with_one_head, _two_heads),
}
