"""Linear attention: the n² form written out, chunks, steps, and memory that grows as the length."""

import numpy as np
import pytest

from npformer.functional import AttentionMask, linear_attention, linear_attention_backward, linear_attention_forward
from npformer.functional.linear_attention import linear_attention_step, linear_attention_weights

B, H, D = 2, 2, 3


def made(rng, queries, keys):
    """q, k, v, dout; numbers on both sides of 0, where elu has its bend."""
    return tuple(rng.normal(size=(B, H, length, D)) for length in (queries, keys, keys, queries))


def phi(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def by_pairs(q, k, visible):
    """The weights (B, H, T, S) of the definition, for visible (B, 1, T, S)."""
    scores = np.einsum("bhtd,bhsd->bhts", phi(q), phi(k)) * visible
    total = scores.sum(-1, keepdims=True)
    return scores / np.where(total > 0, total, 1)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 150])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_sum_over_pairs(length, causal, rng):
    q, k, v, _ = made(rng, length, length)
    seen = np.arange(length) < np.array([[length], [max(1, length // 2)]])
    mask = AttentionMask(seen, causal=causal)
    visible = np.broadcast_to(seen[:, None, None, :], (B, 1, length, length))
    visible = visible & np.tri(length, dtype=bool) if causal else visible
    weights = by_pairs(q, k, visible)
    out, _ = linear_attention_forward(q, k, v, mask)
    np.testing.assert_allclose(out, weights @ v, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(linear_attention_weights(q, k, mask), weights, rtol=1e-12, atol=1e-15)


def test_many_chunks_compute_what_one_does(rng, monkeypatch):
    q, k, v, dout = made(rng, 23, 23)
    outputs = []
    for chunk in (4, 23):
        monkeypatch.setattr(linear_attention, "CHUNK", chunk)
        out, cache = linear_attention_forward(q, k, v, AttentionMask(causal=True))
        outputs.append((out, *linear_attention_backward(dout, cache)))
    for many, one in zip(*outputs, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-11, atol=1e-13)


def test_steps_of_any_size_are_the_causal_form(rng):
    q, k, v, _ = made(rng, 9, 9)
    seen = np.array([[True] * 9, [False, True, True, False, True, True, True, True, True]])
    whole, _ = linear_attention_forward(q, k, v, AttentionMask(seen, causal=True))
    state = np.zeros((B, H, D, D + 1))
    for part in (slice(0, 1), slice(1, 4), slice(4, 9)):
        mask = AttentionMask(seen[:, : part.stop])
        out, state = linear_attention_step(q[:, :, part], k[:, :, part], v[:, :, part], state, mask)
        np.testing.assert_allclose(out, whole[:, :, part], rtol=1e-12, atol=1e-14)


def test_large_numbers_do_not_overflow():
    q, k = np.full((1, 1, 3, 2), 800.0), np.full((1, 1, 3, 2), -700.0)
    v = np.ones((1, 1, 3, 2))
    out, cache = linear_attention_forward(q, k, v)
    np.testing.assert_allclose(out, v)
    assert all(np.isfinite(gradient).all() for gradient in linear_attention_backward(v, cache))
