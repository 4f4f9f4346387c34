"""Attention with a bias: against attention without one, a loop, and biases that hide."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import (
    AttentionMask,
    Draw,
    attention_backward,
    attention_forward,
    biased_attention_backward,
    biased_attention_forward,
    biased_attention_weights,
)

B, H, T, S, D = 2, 3, 4, 5, 6
MASK = AttentionMask(np.array([[True] * 5, [False] * 5]), causal=True, query_offset=1)
DRAW = Draw(seed=1, step=2, micro=3, site=4, rate=0.4)


@pytest.fixture
def given(rng):
    """q, k, v, bias (H, T, S) and dout."""
    shapes = ((B, H, T, D), (B, H, S, D), (B, H, S, D), (H, T, S), (B, H, T, D))
    return tuple(rng.normal(size=shape) for shape in shapes)


def test_a_bias_of_zeros_is_attention_bits_of_dropout_among_them(given):
    q, k, v, bias, dout = given
    out, cache = biased_attention_forward(q, k, v, 0 * bias, MASK, DRAW)
    plain, plain_cache = attention_forward(q, k, v, MASK, DRAW)
    np.testing.assert_allclose(out, plain, rtol=1e-13, atol=1e-15)
    gradients = biased_attention_backward(dout, cache)
    for one, other in zip(gradients[:3], attention_backward(dout, plain_cache), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_values_query_by_query(given):
    q, k, v, bias, _ = given
    out, _ = biased_attention_forward(q, k, v, bias)
    for b, h, t in np.ndindex(B, H, T):
        powers = [math.exp(q[b, h, t] @ k[b, h, s] / math.sqrt(D) + bias[h, t, s]) for s in range(S)]
        mean = sum(power * v[b, h, s] for s, power in enumerate(powers)) / sum(powers)
        assert out[b, h, t] == pytest.approx(mean, rel=1e-12)
        assert biased_attention_weights(q, k, bias)[b, h, t] == pytest.approx(np.array(powers) / sum(powers))


def test_the_bias_gets_the_sum_over_the_batch_and_a_shift_of_its_rows_is_not_seen(given):
    q, k, v, bias, dout = given
    out, cache = biased_attention_forward(q, k, v, bias)
    *_, dbias = biased_attention_backward(dout, cache)
    apart = [biased_attention_forward(*(x[b : b + 1] for x in (q, k, v)), bias)[1] for b in range(B)]
    alone = [biased_attention_backward(dout[b : b + 1], apart[b]) for b in range(B)]
    np.testing.assert_allclose(dbias, sum(gradients[3] for gradients in alone), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(dbias.sum(axis=-1), 0, atol=1e-13)
    np.testing.assert_allclose(biased_attention_forward(q, k, v, bias + bias[..., :1])[0], out, rtol=1e-12)


def test_a_query_that_sees_nothing_has_output_0_and_gradient_0(given):
    q, k, v, bias, dout = given
    out, cache = biased_attention_forward(q, k, v, bias, MASK)
    assert not out[1].any()
    assert out[0].all()
    for gradient in biased_attention_backward(dout, cache)[:3]:
        assert not gradient[1].any()


@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4, 5), (3, 5, 4), (1, 4, 5)])
def test_a_bias_of_another_shape_is_refused(given, shape):
    with pytest.raises(ShapeError, match=f"^{re.escape(f'bias: expected (H, T, S) = (3, 4, 5), got {shape}')}$"):
        biased_attention_forward(*given[:3], np.ones(shape))
