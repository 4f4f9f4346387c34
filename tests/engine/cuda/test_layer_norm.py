"""LayerNorm on a GPU, alone and after a residual sum."""

import numpy as np
import pytest

from npformer.functional import Draw, layer_norm_backward, layer_norm_forward
from tests.backend import test_kernels as kernels

#: One number, no tokens, odd sizes, rows too wide for the shared memory of either kernel, or for one drawing of bits.
SHAPES = [(1, 1), (9,), (2, 3, 5), (0, 3, 4), (7, 4, 33), (2, 1027), (1, 2, 2051), (2, 8219)]


normal = kernels.normal  # a fixture


def numbers(dtype, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@kernels.EVERY_DRAW
@pytest.mark.parametrize("layout", ["gaps"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms(agree, normal, shape, draw):
    kernels.test_norms(agree, normal, shape, draw)


def test_rows_far_from_0_keep_their_digits(table):
    """μ is taken off before the squares are added: mean(x²) − μ² would leave none of these digits."""
    x = 1000 + numbers("float32", 4, 300)
    gain, nothing = np.ones(300, np.float32), np.zeros(300, np.float32)
    y, cache = table.layer_norm.forward(x, gain, nothing)
    true, true_cache = layer_norm_forward(x.astype(np.float64), gain.astype(np.float64), nothing.astype(np.float64))
    unit = 4 * 300**0.5 * 2.0**-24 * 1000  # λ√n·u of a sum of numbers of this size, as check/rounding does
    np.testing.assert_allclose(y, true, rtol=0, atol=unit)
    dy = numbers("float32", 4, 300, seed=4)
    dx = table.layer_norm.backward(dy, cache)[0]
    np.testing.assert_allclose(dx, layer_norm_backward(dy.astype(np.float64), true_cache)[0], rtol=0, atol=4 * unit)


def test_dropped_entries_are_0_even_if_they_were_nan(table):
    x, gain, draw = numbers("float64", 3, 40), numbers("float64", 40), Draw(3, 4, 1, 99, 0.5)
    kept = table.dropout.forward(np.ones_like(x), draw)[0] > 0
    y, _ = table.post_norm.forward(x, np.where(kept, x, np.inf), gain, gain, 1e-5, draw)
    assert np.isfinite(y).all()
