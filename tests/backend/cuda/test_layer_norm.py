"""LayerNorm on a GPU, alone and after a residual sum."""

import numpy as np
import pytest

from npformer.functional import Draw, layer_norm_backward, layer_norm_forward

DRAWS = [None, Draw(3, 4, 1, 99, 0.3), Draw(3, 4, 0, 98, 0.1, first_row=5)]
#: One number, no tokens, odd sizes, rows too wide for the shared memory of either kernel, or for one drawing of bits.
SHAPES = [(1, 1), (9,), (2, 3, 5), (0, 3, 4), (7, 4, 33), (2, 1027), (1, 2, 2051), (2, 8219)]


def normal(dtype, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm(agree, dtype, shape):
    C = shape[-1]
    eps = 1e-5 if C > 1 else 1.0  # one number has no variance: dx is 0, and its rounding errors grow by 1/√eps
    x = normal(dtype, *shape[:-1], 2 * C)[..., ::2]
    assert agree("layer_norm", 2 + x, normal(dtype, C, seed=1), normal(dtype, C, seed=2), eps)


@pytest.mark.parametrize("draw", DRAWS, ids=["inference", "dropout", "later rows"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if len(shape) > 1], ids=str)
def test_after_a_residual_sum(agree, dtype, shape, draw):
    C = shape[-1]
    x, f = 2 + normal(dtype, *shape), normal(dtype, *shape[:-1], 2 * C, seed=3)[..., 1::2]
    rest = (normal(dtype, C, seed=1), normal(dtype, C, seed=2), 1e-5 if C > 1 else 1.0, draw)
    assert agree("post_norm", x, f, *rest)
    assert agree("add_norm", x, f, *rest)


def test_rows_far_from_0_keep_their_digits(table):
    """μ is taken off before the squares are added: mean(x²) − μ² would leave none of these digits."""
    x = 1000 + normal("float32", 4, 300)
    gain, nothing = np.ones(300, np.float32), np.zeros(300, np.float32)
    y, cache = table.layer_norm.forward(x, gain, nothing)
    true, true_cache = layer_norm_forward(x.astype(np.float64), gain.astype(np.float64), nothing.astype(np.float64))
    unit = 4 * 300**0.5 * 2.0**-24 * 1000  # λ√n·u of a sum of numbers of this size, as in npformer/proof/budget.py
    np.testing.assert_allclose(y, true, rtol=0, atol=unit)
    dy = normal("float32", 4, 300, seed=4)
    dx = table.layer_norm.backward(dy, cache)[0]
    np.testing.assert_allclose(dx, layer_norm_backward(dy.astype(np.float64), true_cache)[0], rtol=0, atol=4 * unit)


def test_dropped_entries_are_0_even_if_they_were_nan(table):
    x, gain, draw = normal("float64", 3, 40), normal("float64", 40), Draw(3, 4, 1, 99, 0.5)
    kept = table.dropout.forward(np.ones_like(x), draw)[0] > 0
    y, _ = table.post_norm.forward(x, np.where(kept, x, np.inf), gain, gain, 1e-5, draw)
    assert np.isfinite(y).all()
