"""Every operation, layer and small model of npformer, with inputs on which its gradient is worth checking.

Inputs are random, with no zeros or ones, γ and β away from 1 and 0, repeated tokens, padding, a query
that sees nothing, length 1, saturated scores, dropout on. Sizes are small and all different, so that
two axes cannot be confused unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import AttentionMask, Draw
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
from npformer.proof.check import gradcheck
from npformer.proof.report import Report
from npformer.typing import Array

KEY = RandomKey(seed=7, step=3)
DRAW = Draw(seed=7, step=3, micro=1, site=11, rate=0.3)


@dataclass(frozen=True)
class Case:
    """One check: ``build(backend)`` makes the pair, layer or model; inputs and options are host data."""

    group: str  # "op", "layer" or "model"
    name: str
    build: Callable[[Backend], Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    length_one: bool = False  # on purpose
    along_directions: bool = False  # random ones, as models are; all else is checked element by element
    float64_only: bool = False  # its gradient is a difference of nearly equal numbers, lost in float32

    def check(self, backend: Backend) -> Report:
        """The case's gradient check on a backend."""
        return gradcheck(
            self.build(backend),
            *self.inputs,
            name=self.name,
            elementwise=not self.along_directions,
            allow_length_one=self.length_one,
            device=backend.device,
            **self.options,
        )


def catalogue(only: str = "") -> list[Case]:
    """All cases whose name contains ``only`` (in any case), operations first, then layers, then models."""
    from npformer.proof import catalogue_variants as variants  # made of this file's parts

    cases = (
        *(*op_cases(), *variants.variant_op_cases()),
        *(*layer_cases(), *variants.variant_layer_cases()),
        *(*model_cases(), *variants.variant_model_cases()),
    )
    return [case for case in cases if only.lower() in case.name.lower()]


def op(op_name: str, variant: str, *inputs: Any, **options: Any) -> Case:
    """The case of an operation on inputs."""
    name = f"{op_name}: {variant}" if variant else op_name
    return Case("op", name, lambda backend: getattr(backend.ops, op_name), inputs, options)


def layer(name: str, make: Callable[..., Layer], arguments: dict[str, Any], *inputs: Any, **options: Any) -> Case:
    """The case of a layer, made of arguments, on inputs."""
    return Case("layer", name, lambda backend: shaken(make(**arguments, backend=backend)), inputs, options)


def model(name: str, make: Callable[..., Layer], config: Any, *inputs: Any, **options: Any) -> Case:
    """The case of a model, made of config, on token ids."""
    build = lambda backend: shaken(make(config, backend=backend))  # noqa: E731 - bound to config here
    return Case("model", name, build, inputs, options, along_directions=True)


def op_cases() -> Iterator[Case]:
    """The operations, on random inputs and on the awkward ones."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(size=shape)

    yield op("linear", "", normal(2, 3, 4), normal(4, 5), normal(5))
    yield replace(
        op("linear", "one token, gaps in memory", gaps(normal(1, 1, 4)), gaps(normal(4, 3)), gaps(normal(3))),
        length_one=True,
    )
    yield op("relu", "", normal(3, 7))
    yield op("gelu", "", 2 * normal(3, 7))
    yield op("softmax", "", normal(2, 3, 5))
    yield op("softmax", "a row of nothing", normal(3, 4), np.arange(12).reshape(3, 4) % 4 < [[2], [0], [4]])
    yield replace(op("softmax", "saturated, gaps in memory", gaps(30 * normal(2, 5))), float64_only=True)
    yield op("dropout", "", normal(5, 9), DRAW)
    yield op("embedding", "repeated tokens", np.array([[3, 1, 3], [0, 3, 4]]), normal(6, 4), 2.0)
    yield op("sinusoidal_positions", "odd width", normal(2, 3, 5), 4)
    yield op("learned_positions", "", normal(2, 3, 4), normal(8, 4), 2)
    yield op("layer_norm", "", normal(2, 3, 5), normal(5), normal(5), 1e-5)
    yield op(
        "layer_norm",
        "nearly constant rows, gaps in memory",
        gaps(2 + 1e-2 * normal(3, 4)),
        normal(4),
        normal(4),
        1e-5,
    )
    q, k, v = normal(2, 2, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 6)  # √D is no number that occurs elsewhere
    yield op("attention", "", q, k, v)
    yield op("attention", "padding, a query that sees nothing, dropout", q, k, v, padding(5, 3, 0), DRAW)
    yield op("attention", "causal and padding", k, k + 0.5, v, AttentionMask(padding(5, 5, 2).key_visible, True))
    yield op("attention", "window and offset", q, k, v, AttentionMask(causal=True, query_offset=2, window=2))
    yield replace(
        op("attention", "length 1", normal(2, 1, 1, 3), normal(2, 1, 1, 3), normal(2, 1, 1, 3)), length_one=True
    )
    yield op("attention", "saturated, gaps in memory", gaps(9 * q), gaps(9 * k), gaps(v))
    yield op("residual", "dropout", normal(2, 3, 4), normal(2, 3, 4), DRAW)
    yield op("post_norm", "dropout", normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(4), 1e-5, DRAW)
    yield op("add_norm", "dropout", normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(4), 1e-5, DRAW)
    for activation in ("relu", "gelu"):
        weights = (normal(4, 6), normal(6), normal(6, 4), normal(4))
        yield op("feed_forward", f"{activation}, dropout", normal(2, 3, 4), *weights, activation, DRAW)
    targets = np.array([[1, 4, 0], [2, 0, 0]])
    yield op("cross_entropy", "padding", normal(2, 3, 5), targets, 0, 0.0)
    yield op("cross_entropy", "padding, label smoothing", normal(2, 3, 5), targets, 0, 0.1)
    yield op("cross_entropy", "saturated, nothing ignored", 20 * normal(2, 3, 5), targets, None, 0.1)


def layer_cases() -> Iterator[Case]:
    """The layers, their parameters shaken so that no gain is 1 and no bias 0."""
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

    Two of them have two layers of each kind; what stacks do is checked, element by element, with the layers.
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


def shaken(layer: Layer) -> Layer:
    """The layer with every parameter and every buffer moved at random; equal on every backend."""
    rng = np.random.default_rng(2)
    for _, parameter in layer.named_parameters():
        parameter.data[...] = parameter.data + layer.backend.array(0.3 * rng.normal(size=parameter.data.shape))
    for _, buffer in layer.named_buffers():  # variances stay positive
        buffer.data[...] = buffer.data + layer.backend.array(0.3 * np.abs(rng.normal(size=buffer.data.shape)))
    return layer


def padding(keys: int, *lengths: int) -> AttentionMask:
    """A mask under which sequence b sees its first lengths[b] keys."""
    return AttentionMask(np.arange(keys)[None, :] < np.array(lengths)[:, None])


def gaps(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """x with room between its numbers: not contiguous in memory."""
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))[..., ::2]
    spread[...] = x
    return spread
