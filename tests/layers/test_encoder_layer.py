"""How encoder and decoder layers are wired: a gradient check cannot see a wrong wire."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.functional import AttentionMask
from npformer.layers import DecoderLayer, EncoderLayer, FeedForward
from npformer.proof.catalogue import shaken

SIZE = {"d_model": 4, "num_heads": 2, "d_ff": 6}
X = np.random.default_rng(0).normal(size=(2, 3, 4))
MEMORY = np.random.default_rng(1).normal(size=(2, 5, 4))
MASK = AttentionMask(np.array([[True, True, True], [True, True, False]]), causal=True)
MEMORY_MASK = AttentionMask(np.array([[True] * 5, [True, True, False, False, False]]))


def test_post_ln_normalises_the_sum(numpy64: Backend) -> None:
    layer: Any = shaken(EncoderLayer(**SIZE, backend=numpy64))
    x = layer.norm1(X + layer.self_attention(X, mask=MASK))
    np.testing.assert_allclose(layer(X, mask=MASK), layer.norm2(x + layer.feed_forward(x)), rtol=1e-12)


def test_pre_ln_normalises_what_goes_into_the_sublayer(numpy64: Backend) -> None:
    layer: Any = shaken(EncoderLayer(**SIZE, norm_order="pre", backend=numpy64))
    x = X + layer.self_attention(layer.norm1(X), mask=MASK)
    np.testing.assert_allclose(layer(X, mask=MASK), x + layer.feed_forward(layer.norm2(x)), rtol=1e-12)


def test_a_post_ln_decoder_layer_looks_at_the_past_then_at_the_memory(numpy64: Backend) -> None:
    layer: Any = shaken(DecoderLayer(**SIZE, backend=numpy64))
    x = layer.norm1(X + layer.self_attention(X, mask=MASK))
    x = layer.norm2(x + layer.cross_attention(x, MEMORY, mask=MEMORY_MASK))
    expected = layer.norm3(x + layer.feed_forward(x))
    np.testing.assert_allclose(layer(X, MEMORY, mask=MASK, memory_mask=MEMORY_MASK), expected, rtol=1e-12)


def test_a_pre_ln_decoder_layer_does_not_normalise_the_memory(numpy64: Backend) -> None:
    layer: Any = shaken(DecoderLayer(**SIZE, norm_order="pre", backend=numpy64))
    x = X + layer.self_attention(layer.norm1(X), mask=MASK)
    x = x + layer.cross_attention(layer.norm2(x), MEMORY, mask=MEMORY_MASK)
    expected = x + layer.feed_forward(layer.norm3(x))
    np.testing.assert_allclose(layer(X, MEMORY, mask=MASK, memory_mask=MEMORY_MASK), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_another_norm_order_is_refused(kind: Any, numpy64: Backend) -> None:
    with pytest.raises(ConfigError, match=r"^norm_order: expected 'post' or 'pre', got 'Pre'$"):
        kind(**SIZE, norm_order="Pre", backend=numpy64)


def test_another_activation_is_refused(numpy64: Backend) -> None:
    text = "activation: expected one of relu, gelu, got 'swish'"
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        FeedForward(4, 6, activation="swish", backend=numpy64)
