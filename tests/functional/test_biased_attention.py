"""Attention with a bias: against attention without one, a loop, and biases that hide."""

import math

import numpy as np
import pytest

from npformer.functional import (
    AttentionMask,
    Draw,
    attention_forward,
    biased_attention_forward,
    biased_attention_weights,
)

B, H, T, S, D = 2, 3, 4, 5, 6
MASK = AttentionMask(np.array([[True] * 5, [False] * 5]), causal=True, query_offset=1)
DRAW = Draw(seed=1, step=2, micro=3, site=4, rate=0.4)


@pytest.fixture
def inputs(rng):
    """q, k, v and bias (H, T, S)."""
    shapes = ((B, H, T, D), (B, H, S, D), (B, H, S, D), (H, T, S))
    return tuple(rng.normal(size=shape) for shape in shapes)


def test_a_bias_of_zeros_is_attention_bits_of_dropout_among_them(inputs):
    q, k, v, bias = inputs
    out, _ = biased_attention_forward(q, k, v, 0 * bias, MASK, DRAW)
    plain, _ = attention_forward(q, k, v, MASK, DRAW)
    np.testing.assert_allclose(out, plain, rtol=1e-13, atol=1e-15)


def test_values_query_by_query(inputs):
    q, k, v, bias = inputs
    out, _ = biased_attention_forward(q, k, v, bias)
    for b, h, t in np.ndindex(B, H, T):
        powers = [math.exp(q[b, h, t] @ k[b, h, s] / math.sqrt(D) + bias[h, t, s]) for s in range(S)]
        mean = sum(power * v[b, h, s] for s, power in enumerate(powers)) / sum(powers)
        assert out[b, h, t] == pytest.approx(mean, rel=1e-12)
        assert biased_attention_weights(q, k, bias)[b, h, t] == pytest.approx(np.array(powers) / sum(powers))
