"""Every operation, layer and small model of npformer, with inputs for gradient checks.

The operations' cases are with their other sample inputs, in ``op_samples.py``. Inputs are random, with
no zeros or ones, γ and β away from 1 and 0, repeated tokens, padding, a query that sees nothing, dropout on.
Sizes are small and all different, so that a confusion of two axes is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import AttentionMask
from npformer.layers import (
    CacheStack,
    DecoderLayer,
    DecoderStack,
    Dropout,
    Embedding,
    EncoderLayer,
    EncoderStack,
    FeedForward,
    Layer,
    LayerNorm,
    LearnedPositions,
    Linear,
    MultiHeadAttention,
    RandomKey,
    SinusoidalPositions,
)
from npformer.models import Transformer, TransformerConfig
from npformer.proof.case import KEY, Case, layer, model, padding, shaken
from npformer.proof.catalogue_variants import variant_layer_cases, variant_model_cases
from npformer.proof.op_samples import op_cases
from npformer.typing import Array

__all__ = ["KEY", "Case", "Twice", "catalogue", "layer_cases", "model_cases", "shaken"]


def catalogue(only: str = "") -> list[Case]:
    """All cases whose name contains ``only`` (in any case), operations first, then layers, then models."""
    cases = (
        *op_cases(),
        *(*layer_cases(), *variant_layer_cases()),
        *(*model_cases(), *variant_model_cases()),
    )
    return [case for case in cases if only.lower() in case.name.lower()]


def layer_cases() -> Iterator[Case]:
    """The layers, with randomly moved parameters, so that no gain is 1 and no bias is 0."""
    rng = np.random.default_rng(1)
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    visible, memory_visible = padding(3, 3, 2), padding(5, 2, 5)
    causal = AttentionMask(visible.key_visible, causal=True)
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "dropout": 0.3}

    yield layer("Linear", Linear, {"c_in": 4, "c_out": 5}, x)
    yield layer("Embedding", Embedding, {"vocab_size": 6, "d_model": 4}, np.array([[3, 1, 3], [0, 3, 5]]))
    yield layer("SinusoidalPositions", SinusoidalPositions, {}, x)
    yield layer("LearnedPositions", LearnedPositions, {"max_seq_len": 5, "d_model": 4}, x)
    yield layer("LayerNorm", LayerNorm, {"d_model": 4}, x)
    yield layer("Dropout", Dropout, {"rate": 0.3}, x, key=KEY)
    heads = {"d_model": 4, "num_heads": 2, "dropout": 0.3}
    yield layer("MultiHeadAttention: self", MultiHeadAttention, heads, x, mask=causal, key=KEY)
    yield layer("MultiHeadAttention: cross", MultiHeadAttention, heads, x, memory, mask=memory_visible, key=KEY)
    nothing_visible = AttentionMask(np.zeros((2, 3), dtype=bool) | [[True], [False]])
    yield layer("MultiHeadAttention: a sequence of padding alone", MultiHeadAttention, heads, x, mask=nothing_visible)
    for activation in ("relu", "gelu"):
        options = {"d_model": 4, "d_ff": 6, "activation": activation, "dropout": 0.3}
        yield layer(f"FeedForward: {activation}", FeedForward, options, x, key=KEY)
    yield layer("FeedForward: one layer used twice", Twice, {"d_model": 4, "d_ff": 6}, x, key=KEY)
    for norm_order, activation in (("post", "relu"), ("pre", "gelu")):
        both = size | {"norm_order": norm_order, "activation": activation}
        variant = f"{norm_order}, {activation}"
        yield layer(f"EncoderLayer: {variant}", EncoderLayer, both, x, mask=visible, key=KEY)
        masks = {"mask": causal, "memory_mask": memory_visible}
        yield layer(f"DecoderLayer: {variant}", DecoderLayer, both, x, memory, **masks, key=KEY)
        stack = both | {"num_layers": 2, "final_norm": norm_order == "post"}
        yield layer(f"EncoderStack: {variant}", EncoderStack, stack, x, mask=visible, key=KEY)
        yield layer(f"DecoderStack: {variant}", DecoderStack, stack, x[:, :2], memory[:, :3], key=KEY)


def model_cases() -> Iterator[Case]:
    """Small Transformers: post/pre × ReLU/GELU × tied/untied with padding and dropout, and some others.

    Two of them have two layers of each kind; stacks are checked, element by element, with the layers.
    """
    src = np.array([[3, 5, 4, 6, 2], [6, 6, 2, 0, 0], [4, 2, 0, 0, 0]])
    tgt = np.array([[1, 6, 4, 5], [1, 6, 6, 0], [1, 4, 0, 0]])
    base = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 1}
    two: dict[str, Any] = {"num_encoder_layers": 2, "num_decoder_layers": 2}

    def transformer(
        variant: str, *, inputs: tuple[Any, ...] = (src, tgt), key: RandomKey | None = KEY, **changes: Any
    ) -> Case:
        config = TransformerConfig(7, 7, **(base | {"dropout": 0.3, "max_seq_len": 6} | changes))
        return model(f"Transformer: {variant}", Transformer, config, *inputs, key=key)

    for norm_order in ("post", "pre"):
        for activation in ("relu", "gelu"):
            for tied in (False, True):
                variant = f"{norm_order}, {activation}, {'tied' if tied else 'untied'}"
                options: dict[str, Any] = {"norm_order": norm_order, "activation": activation, "tie_embeddings": tied}
                deep = variant in ("post, relu, untied", "pre, gelu, tied")
                yield transformer(variant, **options, **(two if deep else {}))
    yield transformer("learned positions", positions="learned")
    yield replace(transformer("no padding, no dropout", inputs=(src[:1], tgt[:1]), key=None), length_one=True)
    yield transformer("unscaled embedding, post-LN with a final norm", scale_embedding=False, final_norm=True)
    yield replace(transformer("one layer, length 1", inputs=(src[:, :1], tgt[:, 1:2])), length_one=True)


class Twice(Layer):
    """A feed-forward layer applied to its own output: two uses, two caches, two masks, one gradient."""

    def __init__(self, d_model: int, d_ff: int, *, backend: Backend) -> None:
        super().__init__(backend)
        self.feed_forward = FeedForward(d_model, d_ff, activation="gelu", dropout=0.3, backend=backend)

    def forward(self, x: Array, key: RandomKey) -> tuple[Array, CacheStack]:
        cache = CacheStack(self)
        x = cache.keep(self.feed_forward.forward(x, key=key.child("first")))
        return cache.keep(self.feed_forward.forward(x, key=key.child("second"))), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        dx = self.feed_forward.backward(dy, cache.pop())
        return self.feed_forward.backward(dx, cache.pop())
