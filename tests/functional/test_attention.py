"""Attention: a loop over every query, gradients spelled as sums, and queries that can see nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import AttentionMask, Draw, attention_backward, attention_forward, attention_weights
from npformer.functional.dropout import dropout_threshold
from npformer.functional.philox import philox_bits

B, H, T, S, D = 2, 3, 4, 5, 6
DRAW = Draw(seed=1, step=2, micro=3, site=4, rate=0.4)
MASK = AttentionMask(np.array([[True] * 5, [True, False, True, False, False]]), causal=True, query_offset=1)


@pytest.fixture
def qkv(rng):
    """Queries (B, H, T, D), keys and values (B, H, S, D)."""
    return rng.normal(size=(B, H, T, D)), rng.normal(size=(B, H, S, D)), rng.normal(size=(B, H, S, D))


def sees(b: int, i: int, j: int) -> bool:
    """What MASK says."""
    return bool(MASK.key_visible[b, j]) and j <= i + 1  # type: ignore[index]


def kept(draw: Draw) -> np.ndarray:
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


def test_gradients_are_the_sums_of_the_docstring(qkv, rng):
    q, k, v = qkv
    dout = rng.normal(size=(B, H, T, D))
    _, cache = attention_forward(q, k, v, MASK, DRAW)
    dq, dk, dv = attention_backward(dout, cache)
    weights, keep = attention_weights(q, k, MASK), kept(DRAW)
    dweights = np.einsum("bhtd,bhsd->bhts", dout, v) * keep
    jacobian = np.einsum("bhts,su->bhtsu", weights, np.eye(S)) - np.einsum("bhts,bhtu->bhtsu", weights, weights)
    dscores = np.einsum("bhts,bhtsu->bhtu", dweights, jacobian)
    np.testing.assert_allclose(dv, np.einsum("bhts,bhtd->bhsd", weights * keep, dout), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(dq, np.einsum("bhts,bhsd->bhtd", dscores, k) / D**0.5, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(dk, np.einsum("bhts,bhtd->bhsd", dscores, q) / D**0.5, rtol=1e-11, atol=1e-14)


def test_nothing_of_a_hidden_key_reaches_the_output_or_gets_a_gradient(qkv, rng):
    q, k, v = qkv
    mask = AttentionMask(np.array([[True, True, False, True, False]] * B))
    out, cache = attention_forward(q, k, v, mask)
    _, dk, dv = attention_backward(rng.normal(size=out.shape), cache)
    hidden = [2, 4]
    assert not dk[:, :, hidden].any()
    assert not dv[:, :, hidden].any()
    k2, v2 = k.copy(), v.copy()
    k2[:, :, hidden], v2[:, :, hidden] = 1e30, -1e30
    assert np.array_equal(attention_forward(q, k2, v2, mask)[0], out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_that_sees_nothing_has_output_0_and_gradient_0(qkv, dtype):
    q, k, v = (x.astype(dtype) for x in qkv)
    nothing_in_the_second = AttentionMask(np.array([[True] * S, [False] * S]))
    out, cache = attention_forward(q, k, v, nothing_in_the_second, DRAW)
    gradients = attention_backward(np.ones_like(out), cache)
    assert not out[1].any()
    assert out[0].any()
    for gradient in gradients:
        assert not gradient[1].any()
        assert np.all(np.isfinite(gradient))
    assert not attention_weights(q, k, nothing_in_the_second)[1].any()


def test_one_key_is_simply_taken(rng):
    q, k, v = (rng.normal(size=(2, 1, n, 3)) for n in (4, 1, 1))
    out, cache = attention_forward(q, k, v)
    dq, dk, dv = attention_backward(np.ones_like(out), cache)
    assert np.array_equal(out, np.broadcast_to(v, out.shape))
    assert not dq.any()
    assert not dk.any()
    assert np.array_equal(dv, np.full_like(v, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_scores_choose_one_key(dtype):
    q = np.array([[[[100.0]], [[-100.0]]]], dtype=dtype)  # (1, 2, 1, 1): scores of ±1e4
    k = np.broadcast_to(np.array([[100.0], [-100.0]], dtype=dtype), (1, 2, 2, 1))
    v = np.broadcast_to(np.array([[3.0], [5.0]], dtype=dtype), (1, 2, 2, 1))
    out, cache = attention_forward(q, k, v)
    assert out.ravel().tolist() == [3, 5]
    dq, dk, dv = attention_backward(np.ones_like(out), cache)
    assert not dq.any()
    assert not dk.any()
    assert dv.ravel().tolist() == [1, 0, 0, 1]


def test_the_order_of_keys_does_not_matter(qkv):
    q, k, v = qkv
    order = [3, 0, 4, 1, 2]
    np.testing.assert_allclose(
        attention_forward(q, k[:, :, order], v[:, :, order])[0], attention_forward(q, k, v)[0], rtol=1e-12
    )


def test_weights_for_a_reader_are_before_dropout_and_sum_to_1(qkv):
    q, k, v = qkv
    weights = attention_weights(q, k)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-13)
    np.testing.assert_allclose(weights @ v, attention_forward(q, k, v)[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        ((2, 3, 4), (2, 3, 5, 6), (2, 3, 5, 6), r"q: expected \(B, H, T, D\), got \(2, 3, 4\)"),
        ((2, 3, 4, 6), (2, 3, 5, 7), (2, 3, 5, 6), r"k: expected \(B=2, H=3, S, D=6\), got \(2, 3, 5, 7\)"),
        ((2, 3, 4, 6), (5,), (2, 3, 5, 6), r"k: expected \(B=2, H=3, S, D=6\), got \(5,\)"),
        ((2, 3, 4, 6), (1, 3, 5, 6), (1, 3, 5, 6), r"k: expected \(B=2, H=3, S, D=6\), got \(1, 3, 5, 6\)"),
        ((2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 4, 6), r"v: expected the shape of k = \(2, 3, 5, 6\), got \(2, 3, 4, 6\)"),
    ],
)
def test_shapes_that_do_not_meet(q, k, v, message):
    with pytest.raises(ShapeError, match=message):
        attention_forward(np.ones(q), np.ones(k), np.ones(v))


def test_a_mask_for_another_batch_is_an_error(qkv):
    q, k, v = (x[:1] for x in qkv)
    with pytest.raises(ShapeError, match=r"key_visible: expected \(B, S\) = \(1, 5\), got \(2, 5\)"):
        attention_forward(q, k, v, MASK)
