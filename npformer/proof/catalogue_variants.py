"""Catalogue cases for alternative parts of a Transformer, and for layers from before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from npformer.functional import AttentionMask
from npformer.layers import (
    BatchNorm,
    Conv1d,
    DecoderLayer,
    EncoderLayer,
    Gru,
    MultiHeadAttention,
    RandomKey,
    RelativeBias,
    SelfAttention,
)
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.models.config import CHOICES
from npformer.proof.case import KEY, Case, layer, model, padding

ORDERS = ("post", "pre")
#: Kinds of self-attention by name, as a model's options.
ATTENTIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "local": {"attention": "local", "window": 2},
    "linear": {"attention": "linear"},
}


#: Each alternative self-attention of a layer, by name.
SELF_ATTENTIONS = {
    "rotary": SelfAttention(position_encoding="rotary"),
    "relative": SelfAttention(position_encoding="relative", num_buckets=4, max_distance=3),
    "relative, causal buckets": SelfAttention(position_encoding="relative", num_buckets=3, max_distance=3, causal=True),
    "local": SelfAttention("local", window=2),
    "local, rotary": SelfAttention("local", window=1, stride=2, position_encoding="rotary"),
    "linear": SelfAttention("linear"),
    "linear, rotary": SelfAttention("linear", position_encoding="rotary"),
}


def variant_layer_cases() -> Iterator[Case]:
    """The layers with alternative parts, and those from before attention."""
    rng = np.random.default_rng(4)
    x, memory, start = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 6))
    seen = padding(5, 5, 3)
    causal = AttentionMask(seen.key_visible, causal=True)

    yield layer("RelativeBias", RelativeBias, {"num_heads": 3, "num_buckets": 4, "max_distance": 3}, 3, 5)
    options = {"num_heads": 2, "num_buckets": 3, "max_distance": 3, "causal": True}
    yield layer("RelativeBias: causal, offset", RelativeBias, options, 2, 5, 3)
    yield layer("BatchNorm: training, padding", BatchNorm, {"d_model": 4}, x, visible=seen.key_visible, training=True)
    yield layer("BatchNorm: inference", BatchNorm, {"d_model": 4}, x)
    yield layer("Gru: padding", Gru, {"c_in": 4, "d_model": 6}, x, start, visible=seen.key_visible)
    yield layer("Conv1d", Conv1d, {"c_in": 4, "c_out": 3, "kernel_size": 4}, x)
    yield layer("Conv1d: causal", Conv1d, {"c_in": 4, "c_out": 3, "causal": True}, x)
    for name, attention in SELF_ATTENTIONS.items():
        yield _with_attention(f"MultiHeadAttention: {name}", attention, x, causal if attention.causal else seen)
    yield _with_attention("MultiHeadAttention: linear, causal", SELF_ATTENTIONS["linear"], x, causal)
    yield from (replace(case, along_directions=True) for case in _layers_of_layers(x, memory, seen, causal))


def _layers_of_layers(
    x: np.ndarray[Any, Any], memory: np.ndarray[Any, Any], seen: AttentionMask, causal: AttentionMask
) -> Iterator[Case]:
    """Encoder and decoder layers with each self-attention, and with BatchNorm."""
    both = {"d_model": 4, "num_heads": 2, "d_ff": 6, "dropout": 0.3}
    for (name, attention), order in zip(SELF_ATTENTIONS.items(), ("post", "pre") * 4, strict=False):
        options = both | {"norm_order": order, "attention": attention}
        if not attention.causal:
            yield layer(f"EncoderLayer: {order}, {name}", EncoderLayer, options, x, mask=seen, key=KEY)
        yield layer(f"DecoderLayer: {order}, {name}", DecoderLayer, options, x, memory, mask=causal, key=KEY)
    for (order, activation), key in product((("post", "relu"), ("pre", "gelu")), (KEY, None)):
        options = both | {"norm_order": order, "norm": "batch", "activation": activation}
        variant = f"{order}, {activation}, batch norm, {'training' if key else 'inference'}"
        yield layer(f"EncoderLayer: {variant}", EncoderLayer, options, x, mask=seen, key=key)
        yield layer(f"DecoderLayer: {variant}", DecoderLayer, options, x, memory, mask=causal, key=key)


def _with_attention(name: str, attention: SelfAttention, x: np.ndarray[Any, Any], mask: AttentionMask) -> Case:
    """MultiHeadAttention with this attention; RoPE rotates two pairs of columns."""

    def make(**arguments: Any) -> MultiHeadAttention:
        return attention.build(x.shape[-1], 1 if attention.position_encoding == "rotary" else 2, seed=0, **arguments)

    return layer(name, make, {"dropout": 0.3}, x, mask=mask, key=KEY)


def combinations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every valid combination of positions and attention: (name, options of a config)."""
    for positions, (name, attention) in product(CHOICES["positions"], ATTENTIONS.items()):
        if positions != "relative" or name == "full":  # a bias needs the full matrix of scores
            yield f"{positions}, {name}", {"positions": positions} | attention


def variant_model_cases() -> Iterator[Case]:
    """Encoders with each head, Decoders, and all three models with every valid pair of positions and attention."""
    src = np.array([[3, 5, 4, 6, 2], [6, 5, 2, 0, 0], [4, 2, 0, 0, 0]])
    tgt = np.array([[1, 6, 4, 5], [1, 6, 6, 0], [1, 4, 0, 0]])
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "dropout": 0.3, "max_seq_len": 6}
    depth = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    one = {"num_layers": 1} | size
    heads: list[dict[str, Any]] = [
        {"head": "sequence", "num_classes": 3}, {"head": "tokens", "num_classes": 5}, {"head": "masked"},
    ]  # fmt: skip

    def encoder(variant: str, head: dict[str, Any], key: RandomKey | None = KEY, **changes: Any) -> Case:
        config = EncoderConfig(7, **(one | head | changes))
        return model(f"Encoder: {head['head']}, {variant}", Encoder, config, src, key=key)

    def decoder(variant: str, key: RandomKey | None = KEY, **changes: Any) -> Case:
        return model(f"Decoder: {variant}", Decoder, DecoderConfig(7, **(one | changes)), src, key=key)

    def transformer(variant: str, key: RandomKey | None = KEY, **changes: Any) -> Case:
        config = TransformerConfig(7, 7, **(depth | size | changes))
        return model(f"Transformer: {variant}", Transformer, config, src, tgt, key=key)

    for i, (name, options) in enumerate(combinations()):
        variant, options = f"{name}, {ORDERS[i % 2]}", options | {"norm_order": ORDERS[i % 2]}
        yield encoder(variant, heads[i % 3], **options)
        yield decoder(variant, **options)
        yield transformer(variant, **options)
    two: dict[str, Any] = {"num_layers": 2, "activation": "gelu"}
    yield encoder("two layers, tied", heads[2], tie_embeddings=True, norm_order="pre", **two)
    yield decoder("two layers, tied, recompute", tie_embeddings=True, recompute=True, norm_order="pre", **two)
    yield decoder("strided", attention="local", stride=2)
    for norm_order, key in product(ORDERS, (KEY, None)):
        batch: dict[str, Any] = {"norm": "batch", "norm_order": norm_order}
        variant = f"batch norm, {norm_order}, {'training' if key else 'inference'}"
        yield encoder(variant, heads[0], key, **batch)
        yield decoder(variant, key, **batch)
        yield transformer(variant, key, **batch)
