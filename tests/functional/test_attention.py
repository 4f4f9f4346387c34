"""Attention: a loop over every query, gradients spelled as sums, and queries that can see nothing."""

import math

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional import AttentionMask, Draw, attention_forward
from npformer.functional.dropout import dropout_threshold
from npformer.functional.philox import philox_bits

B, H, T, S, D = 2, 3, 4, 5, 6
DRAW = Draw(seed=1, step=2, micro=3, site=4, rate=0.4)
MASK = AttentionMask(np.array([[True] * 5, [True, False, True, False, False]]), causal=True, query_offset=1)


@pytest.fixture
def qkv(rng):
    """Queries (B, H, T, D), keys and values (B, H, S, D)."""
    return rng.normal(size=(B, H, T, D)), rng.normal(size=(B, H, S, D)), rng.normal(size=(B, H, S, D))


def sees(b, i, j):
    """What MASK says."""
    return bool(MASK.key_visible[b, j]) and j <= i + 1


def kept(draw):
    """keep·s (B, H, T, S) of a draw."""
    threshold, scale = dropout_threshold(draw.rate)
    return (philox_bits(draw, B * H * T * S, np.ones(1)) >= threshold).reshape(B, H, T, S) * scale


def test_values_query_by_query(qkv):
    q, k, v = qkv
    out, _ = attention_forward(q, k, v, MASK, DRAW)
    keep = kept(DRAW)
    for b, h, i in np.ndindex(B, H, T):
        powers = {
            j: math.exp(sum(q[b, h, i, d] * k[b, h, j, d] for d in range(D)) / math.sqrt(D))
            for j in range(S)
            if sees(b, i, j)
        }
        mean = sum(power * keep[b, h, i, j] * v[b, h, j] for j, power in powers.items()) / sum(powers.values())
        assert out[b, h, i] == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in F.OPERATIONS if name.endswith("attention")])
def test_a_query_that_sees_nothing_has_output_0_and_gradient_0(name, dtype, rng):
    inputs = list(rng.normal(size=(3, B, H, S, D)).astype(dtype))
    row = F.OPERATIONS[name]
    if "bias" in row.inputs:
        inputs.append(rng.normal(size=(H, S, S)).astype(dtype))
    window, draw = (9, (DRAW._replace(rate=0.1),)) if row.draws else (None, ())
    nothing_in_the_second = AttentionMask(np.array([[True] * S, [False] * S]), window=window)
    out, cache = getattr(F, f"{name}_forward")(*inputs, nothing_in_the_second, *draw)
    assert not out[1].any()
    assert out[0].all()
    for gradient in getattr(F, f"{name}_backward")(np.ones_like(out), cache)[:3]:
        assert not gradient[1].any()
        assert gradient[0].all()
        assert np.all(np.isfinite(gradient))
