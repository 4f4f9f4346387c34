"""Every operation, layer and small model of npformer, with inputs for gradient checks.

The operations' cases are with their other sample inputs, in ``op_samples.py``. Inputs are random, with
no zeros or ones, γ and β away from 1 and 0, repeated tokens, padding, a query that sees nothing, dropout on.
Sizes are small and all different, so that a confusion of two axes is noticed.

Random draws of shapes, options and numbers are cases, too, each made from a seed: a right gradient must never be called
wrong. Their sizes are small, most between 2 and 6 (2 or 3 heads, and as many sequences); masks hide some or all keys of
a sequence; tokens repeat, targets do not count, with or without dropout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, get_args

import numpy as np

from npformer import functional
from npformer.backend import Backend
from npformer.check.cases import op_samples
from npformer.check.cases.case import KEY, Case, CaseSizes, UsualSizes, layer, model, padding
from npformer.check.cases.op_samples import op_cases
from npformer.functional import OPERATIONS, AttentionMask
from npformer.layers import (
    BatchNorm,
    CacheStack,
    Context,
    Conv1d,
    DecoderLayer,
    DecoderStack,
    Dropout,
    Embedding,
    EncoderLayer,
    EncoderStack,
    FeedForward,
    Gru,
    Layer,
    LayerNorm,
    LearnedPositions,
    Linear,
    MultiHeadAttention,
    RandomKey,
    RelativeBias,
    SelfAttention,
    SinusoidalPositions,
)
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.models.config import ModelConfig, kinds_of
from npformer.typing import Array, HostArray, Values

OPS = tuple(OPERATIONS)
ORDERS = ("post", "pre")
SIZE: Values = {"d_model": 4, "num_heads": 2, "d_ff": 6, "dropout": 0.3}
#: Source and target ids of three sequences, padded.
SRC = np.array([[3, 5, 4, 6, 2], [6, 6, 2, 0, 0], [4, 2, 0, 0, 0]])
TGT = np.array([[1, 6, 4, 5], [1, 6, 6, 0], [1, 4, 0, 0]])
#: Kinds of self-attention by name, as a model's options.
ATTENTIONS: dict[str, Values] = {
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


def catalogue(only: str = "") -> list[Case]:
    """The cases that ``only`` selects, operations first, then layers, then models."""
    cases = (
        *op_cases(),
        *(*layer_cases(), *variant_layer_cases()),
        *(*model_cases(), *variant_model_cases()),
    )
    return selected(cases, only)


def selected(cases: Iterable[Case], only: str) -> list[Case]:
    """The cases of the operation or layer of this very name; if there is none, those whose name contains it.

    So ``linear`` is that operation, with its variants, and no linear_attention. A part of a name has any case.
    """
    cases = list(cases)
    own = [case for case in cases if case.name.partition(":")[0] == only]
    return own or [case for case in cases if only.lower() in case.name.lower()]


def layer_cases() -> Iterator[Case]:
    """The layers, with randomly moved parameters, so that no gain is 1 and no bias is 0."""
    rng = np.random.default_rng(1)
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    visible, memory_visible = padding(3, 3, 2), padding(5, 2, 5)
    causal = AttentionMask(visible.key_visible, causal=True)

    yield layer("Linear", Linear, {"c_in": 4, "c_out": 5}, x)
    yield layer("Embedding", Embedding, {"vocab_size": 6, "d_model": 4}, np.array([[3, 1, 3], [0, 3, 5]]))
    yield layer("SinusoidalPositions", SinusoidalPositions, {}, x)
    yield layer("LearnedPositions", LearnedPositions, {"max_seq_len": 5, "d_model": 4}, x)
    yield layer("LayerNorm", LayerNorm, {"d_model": 4}, x)
    yield layer("Dropout", Dropout, {"rate": 0.3}, x, context=Context(key=KEY))
    heads = {"d_model": 4, "num_heads": 2, "dropout": 0.3}
    to_itself, to_memory = Context(causal, key=KEY), Context(memory_mask=memory_visible, key=KEY)
    yield layer("MultiHeadAttention: self", MultiHeadAttention, heads, x, context=to_itself)
    yield layer("MultiHeadAttention: cross", MultiHeadAttention, heads, x, memory, context=to_memory)
    alone = Context(AttentionMask(np.zeros((2, 3), dtype=bool) | [[True], [False]]))  # nothing is visible
    yield layer("MultiHeadAttention: a sequence of padding alone", MultiHeadAttention, heads, x, context=alone)
    for activation in ("relu", "gelu"):
        options = {"d_model": 4, "d_ff": 6, "activation": activation, "dropout": 0.3}
        yield layer(f"FeedForward: {activation}", FeedForward, options, x, context=Context(key=KEY))
    yield layer("FeedForward: one layer used twice", Twice, {"d_model": 4, "d_ff": 6}, x, context=Context(key=KEY))
    for norm_order, activation in (("post", "relu"), ("pre", "gelu")):
        both = SIZE | {"norm_order": norm_order, "activation": activation}
        variant = f"{norm_order}, {activation}"
        yield layer(f"EncoderLayer: {variant}", EncoderLayer, both, x, context=Context(visible, key=KEY))
        context = Context(causal, memory_visible, KEY)
        yield layer(f"DecoderLayer: {variant}", DecoderLayer, both, x, memory, context=context)
        stack = both | {"num_layers": 2, "final_norm": norm_order == "post"}
        yield layer(f"EncoderStack: {variant}", EncoderStack, stack, x, context=Context(visible, key=KEY))
        yield layer(f"DecoderStack: {variant}", DecoderStack, stack, x[:, :2], memory[:, :3], context=Context(key=KEY))


def model_cases() -> Iterator[Case]:
    """Small Transformers: post/pre × ReLU/GELU × tied/untied with padding and dropout, and some others.

    Two of them have two layers of each kind; stacks are checked, element by element, with the layers.
    """
    transformer = partial(_transformer, (SRC, TGT), d_model=8, d_ff=12)
    two: Values = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    for norm_order, activation, tied in product(ORDERS, ("relu", "gelu"), (False, True)):
        variant = f"{norm_order}, {activation}, {'tied' if tied else 'untied'}"
        options: Values = {"norm_order": norm_order, "activation": activation, "tie_embeddings": tied}
        deep = variant in ("post, relu, untied", "pre, gelu, tied")
        yield transformer(variant, **options, **(two if deep else {}))
    yield transformer("learned positions", positions="learned")
    alone = _transformer((SRC[:1], TGT[:1]), "no padding, no dropout", None, d_model=8, d_ff=12)
    yield replace(alone, length_one=True)
    yield transformer("unscaled embedding, post-LN with a final norm", scale_embedding=False, final_norm=True)
    short = _transformer((SRC[:, :1], TGT[:, 1:2]), "one layer, length 1", d_model=8, d_ff=12)
    yield replace(short, length_one=True)


def _transformer(inputs: tuple[Any, ...], variant: str, key: RandomKey | None = KEY, **changes: Any) -> Case:
    """A small Transformer of one layer of each kind, unless changes say otherwise."""
    depth = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = TransformerConfig(7, 7, **(SIZE | {"max_seq_len": 6} | depth | changes))
    return model(f"Transformer: {variant}", Transformer, config, *inputs, key=key)


def variant_layer_cases() -> Iterator[Case]:
    """The layers with alternative parts, and those from before attention."""
    rng = np.random.default_rng(4)
    x, memory, start = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 6))
    seen = padding(5, 5, 3)
    causal = AttentionMask(seen.key_visible, causal=True)

    yield layer("RelativeBias", RelativeBias, {"num_heads": 3, "num_buckets": 4, "max_distance": 3}, 3, 5)
    options = {"num_heads": 2, "num_buckets": 3, "max_distance": 3, "causal": True}
    yield layer("RelativeBias: causal, offset", RelativeBias, options, 2, 5, 3)
    yield layer("BatchNorm: training, padding", BatchNorm, {"d_model": 4}, x, context=Context(seen, key=KEY))
    yield layer("BatchNorm: inference", BatchNorm, {"d_model": 4}, x)
    yield layer("Gru: padding", Gru, {"c_in": 4, "d_model": 6}, x, start, visible=seen.key_visible)
    yield layer("Conv1d", Conv1d, {"c_in": 4, "c_out": 3, "kernel_size": 4}, x)
    yield layer("Conv1d: causal", Conv1d, {"c_in": 4, "c_out": 3, "causal": True}, x)
    for name, attention in SELF_ATTENTIONS.items():
        yield _with_attention(f"MultiHeadAttention: {name}", attention, x, causal if attention.causal else seen)
    yield _with_attention("MultiHeadAttention: linear, causal", SELF_ATTENTIONS["linear"], x, causal)
    yield from (replace(case, along_directions=True) for case in _layers_of_layers(x, memory, seen, causal))


def _layers_of_layers(x: HostArray, memory: HostArray, seen: AttentionMask, causal: AttentionMask) -> Iterator[Case]:
    """Encoder and decoder layers with each self-attention, and with BatchNorm."""

    def both(variant: str, key: RandomKey | None, **changes: Any) -> tuple[Case, Case]:
        options = SIZE | changes
        return (
            layer(f"EncoderLayer: {variant}", EncoderLayer, options, x, context=Context(seen, key=key)),
            layer(f"DecoderLayer: {variant}", DecoderLayer, options, x, memory, context=Context(causal, key=key)),
        )

    for (name, attention), order in zip(SELF_ATTENTIONS.items(), ORDERS * 4, strict=False):
        encoder, decoder = both(f"{order}, {name}", KEY, norm_order=order, attention=attention)
        yield from (decoder,) if attention.causal else (encoder, decoder)
    for (order, activation), key in product((("post", "relu"), ("pre", "gelu")), (KEY, None)):
        variant = f"{order}, {activation}, batch norm, {'training' if key else 'inference'}"
        yield from both(variant, key, norm_order=order, norm="batch", activation=activation)


def _with_attention(name: str, attention: SelfAttention, x: HostArray, mask: AttentionMask) -> Case:
    """MultiHeadAttention with this attention; RoPE rotates two pairs of columns."""

    def make(**arguments: Any) -> MultiHeadAttention:
        return attention.build(x.shape[-1], 1 if attention.position_encoding == "rotary" else 2, seed=0, **arguments)

    return layer(name, make, {"dropout": 0.3}, x, context=Context(mask, key=KEY))


def combinations() -> Iterator[tuple[str, Values]]:
    """Every valid combination of positions and attention: (name, options of a config)."""
    for positions, (name, attention) in product(get_args(kinds_of(ModelConfig)["positions"]), ATTENTIONS.items()):
        if positions != "relative" or name == "full":  # a bias needs the full matrix of scores
            yield f"{positions}, {name}", {"positions": positions} | attention


def variant_model_cases() -> Iterator[Case]:
    """Encoders with each head, Decoders, and all three models with every valid pair of positions and attention."""
    src = np.array([[3, 5, 4, 6, 2], [6, 5, 2, 0, 0], [4, 2, 0, 0, 0]])
    size = SIZE | {"max_seq_len": 6}
    one = {"num_layers": 1} | size
    heads: list[Values] = [
        {"head": "sequence", "num_classes": 3},
        {"head": "tokens", "num_classes": 5},
        {"head": "masked"},
    ]

    def encoder(variant: str, head: Values, key: RandomKey | None = KEY, **changes: Any) -> Case:
        config = EncoderConfig(7, **(one | head | changes))
        return model(f"Encoder: {head['head']}, {variant}", Encoder, config, src, key=key)

    def decoder(variant: str, key: RandomKey | None = KEY, **changes: Any) -> Case:
        return model(f"Decoder: {variant}", Decoder, DecoderConfig(7, **(one | changes)), src, key=key)

    transformer = partial(_transformer, (src, TGT))
    for i, (name, options) in enumerate(combinations()):
        variant, options = f"{name}, {ORDERS[i % 2]}", options | {"norm_order": ORDERS[i % 2]}
        yield encoder(variant, heads[i % 3], **options)
        yield decoder(variant, **options)
        yield transformer(variant, **options)
    two: Values = {"num_layers": 2, "activation": "gelu"}
    yield encoder("two layers, tied", heads[2], tie_embeddings=True, norm_order="pre", **two)
    yield decoder("two layers, tied, recompute", tie_embeddings=True, recompute=True, norm_order="pre", **two)
    yield decoder("strided", attention="local", stride=2)
    for norm_order, key in product(ORDERS, (KEY, None)):
        batch: Values = {"norm": "batch", "norm_order": norm_order}
        variant = f"batch norm, {norm_order}, {'training' if key else 'inference'}"
        yield encoder(variant, heads[0], key, **batch)
        yield decoder(variant, key, **batch)
        yield transformer(variant, key, **batch)


class Twice(Layer):
    """A feed-forward layer applied to its own output: two uses, two caches, two masks, one gradient."""

    def __init__(self, d_model: int, d_ff: int, *, backend: Backend) -> None:
        super().__init__(backend)
        self.feed_forward = FeedForward(d_model, d_ff, activation="gelu", dropout=0.3, backend=backend)

    def forward(self, x: Array, *, context: Context) -> tuple[Array, CacheStack]:
        cache = CacheStack(self)
        x = cache.keep(self.feed_forward.forward(x, context=context.child("first")))
        return cache.keep(self.feed_forward.forward(x, context=context.child("second"))), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        dx = self.feed_forward.backward(dy, cache.pop())
        return self.feed_forward.backward(dx, cache.pop())


def random_cases(per_op: int, models: int, seed: int = 0) -> Iterator[Case]:
    """per_op draws of every operation, and draws of the Transformer."""
    for op in OPS:
        for number in range(per_op):
            yield random_op_case(op, seed, number)
    for number in range(models):
        yield random_model_case(seed, number)


def random_op_case(op: str, seed: int, number: int) -> Case:
    """The numbered draw of an operation; repeated while its whole output is 0, which would prove nothing."""
    rng = np.random.default_rng([seed, OPS.index(op), number])
    make, sizes = getattr(op_samples, op), CaseSizes(rng)
    inputs = make(sizes)
    while not np.any(getattr(functional, f"{op}_forward")(*inputs)[0]):
        inputs = make(sizes)
    name = f"{op}: draw {number} of seed {seed}"
    return Case("op", name, lambda backend: getattr(backend.ops, op), inputs, length_one=True)


def usual_inputs(op: str, dtype: Any = "float64") -> tuple[Any, ...]:
    """Small inputs of an operation in this precision, with the usual options, and dropout if it has any."""
    inputs = getattr(op_samples, op)(UsualSizes(np.random.default_rng(0)))
    return tuple(x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs)


def random_model_case(seed: int, number: int) -> Case:
    """The numbered draw of a small Transformer."""
    rng = np.random.default_rng([seed, len(OPS), number])
    heads, vocabulary = int(rng.integers(1, 4)), int(rng.integers(5, 9))
    config = TransformerConfig(
        vocabulary,
        vocabulary,
        d_model=heads * int(rng.integers(2, 5)),
        num_heads=heads,
        num_encoder_layers=int(rng.integers(1, 3)),
        num_decoder_layers=int(rng.integers(1, 3)),
        d_ff=int(rng.integers(2, 9)),
        max_seq_len=8,
        dropout=float(rng.choice([0.0, 0.1, 0.5])),
        norm_order=rng.choice(["post", "pre"]),
        final_norm=[None, True, False][rng.integers(3)],
        activation=rng.choice(["relu", "gelu"]),
        positions=rng.choice(["sinusoidal", "learned"]),
        scale_embedding=bool(rng.integers(2)),
        tie_embeddings=bool(rng.integers(2)),
    )
    batch = int(rng.integers(2, 5))
    inputs = (_padded(rng, batch, vocabulary), _padded(rng, batch, vocabulary))
    key = RandomKey(seed, number) if rng.integers(2) else None
    return model(f"Transformer: draw {number} of seed {seed}", Transformer, config, *inputs, key=key)


def _padded(rng: np.random.Generator, batch: int, vocabulary: int) -> HostArray:
    """Token ids (B, T), each row padded with 0 from some place on, the first of full length."""
    length = int(rng.integers(2, 6))
    tokens = rng.integers(1, vocabulary, size=(batch, length))
    ends = rng.integers(1, length + 1, size=(batch, 1))
    ends[0] = length
    return np.where(np.arange(length) < ends, tokens, 0)
