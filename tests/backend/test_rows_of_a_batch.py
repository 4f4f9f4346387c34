"""Rows of a batch, computed apart, are dropped bit for bit as in the whole batch, by every operation that draws."""

import numpy as np
import pytest

from npformer.backend import Pair
from npformer.backend.ops import DRAWING
from npformer.functional import AttentionMask, Draw
from npformer.functional.philox import WORD

ROWS = 7
PARTS = [slice(0, 4), slice(1, 2), slice(3, 7), slice(6, 7)]
#: (T, C) of one row: a number, odd sizes, blocks of 16, more numbers than are drawn at a time.
SIZES = [(1, 1), (3, 5), (2, 8), (1, 16), (37, 61), (3, 3000)]
DRAWS = {"small": Draw(5, 6, 1, 77, 0.4), "large": Draw(WORD, WORD, WORD - 1, 2**63, 0.4)}


def inputs_for(op, T, C):
    """For a whole batch, without the draw, so that what is dropped can be seen in an output or a gradient."""
    rng = np.random.default_rng(1)
    C = min(C, 61) if op == "feed_forward" or "attention" in op else C
    x, f = rng.normal(size=(ROWS, T, C)), rng.normal(size=(ROWS, T, C))
    eye, gain = np.eye(C), 1 + rng.random(C)
    if op == "dropout":
        return (x,)
    if op == "residual":
        return 0 * x, f
    if "attention" in op:  # with V the identity, the output is the dropped weights
        v = np.broadcast_to(eye, (ROWS, 1, C, C))
        k = rng.normal(size=v.shape)
        if op == "local_attention":
            return rng.normal(size=v.shape), k, v, AttentionMask(window=2, stride=3)
        return x[:, None], k, v, AttentionMask()
    if op == "feed_forward":
        return np.abs(x), eye, gain, eye, 0 * gain, "gelu" if T == 3 else "relu"
    return x, f, gain, gain, 1e-5


def pair_for(ops, op):
    """The operation; if it takes a bias, which has no rows of a batch, with one for the shapes it is given."""
    pair = getattr(ops, op)
    if op != "biased_attention":
        return pair

    def forward(q, k, *others):
        bias = np.cos(np.arange(q[0, :, :, :1].size * k.shape[2])).reshape(*q.shape[1:3], k.shape[2])
        return pair.forward(q, k, others[0], bias, *others[1:])

    return Pair(forward, pair.backward)


def run(pair, inputs, draw, dy):
    """(the gradient of the output, made if dy is None; outputs and gradients of what has rows)."""
    y, cache = pair.forward(*inputs, draw)
    outputs = y if isinstance(y, tuple) else (y,)
    if dy is None:
        dy = tuple(np.random.default_rng(2).normal(size=part.shape) for part in outputs)
    gradients = pair.backward(dy if isinstance(y, tuple) else dy[0], cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return dy, [*outputs, *(g for g, x in zip(gradients, inputs, strict=False) if has_rows(x))]


def has_rows(x):
    return isinstance(x, np.ndarray) and x.ndim > 2


@pytest.mark.parametrize("op", DRAWING)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_parts_of_a_batch_are_parts_of_the_whole(any64, op, size, draw):
    pair, inputs = pair_for(any64.ops, op), inputs_for(op, *size)
    dy, whole = run(pair, inputs, draw, None)
    for rows in PARTS:
        some = tuple(x[rows] if has_rows(x) else x for x in inputs)
        _, part = run(pair, some, draw._replace(first_row=rows.start), tuple(d[rows] for d in dy))
        for actual, true in zip(part, whole, strict=True):
            assert np.array_equal(actual == 0, true[rows] == 0), "other numbers are dropped"
            np.testing.assert_allclose(actual, true[rows], rtol=1e-9, atol=1e-9 * np.max(np.abs(true)))
