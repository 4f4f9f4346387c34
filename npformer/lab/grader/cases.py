"""The inputs on which a learner's pair is tested: random, of several shapes, with awkward cases.

All sizes of a case differ where possible, so that a confused axis is noticed. There are separate cases for
length 1, batches of 1, gaps in memory, padding, a fully masked row, repeated tokens and rows longer
than nine, each with a name for the report.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.tree import as_tuple
from npformer.typing import HostArray, HostArrays

Rng = np.random.Generator
LONG = "long rows"  # the label of the case whose batches, rows and sequences are longer than nine where possible


@dataclass(frozen=True)
class Case:
    """Arguments of a forward, upstream gradients of its outputs, and the reference's results."""

    label: str
    arguments: tuple[Any, ...]
    upstream: Any  # one array, or a tuple if there are several outputs
    outputs: Any
    gradients: Any
    cache: Any  # the reference forward's
    sizes: Mapping[str, float]  # named numbers that a wrong factor may equal
    gaps: bool = False  # arrays have gaps between their elements


@cache
def cases_of(exercise: Exercise) -> tuple[Case, ...]:
    """All cases of an exercise, with the same numbers at every call."""
    rng = np.random.default_rng(sum(map(ord, exercise.name)))
    return tuple(_complete(exercise, rng, *inputs) for inputs in INPUTS[exercise.name](rng))


def _complete(exercise: Exercise, rng: Rng, label: str, arguments: tuple[Any, ...], sizes: Mapping[str, float]) -> Case:
    defaults = [parameter.default for parameter in inspect.signature(exercise.forward).parameters.values()]
    arguments = (*arguments, *defaults[len(arguments) :])
    outputs, kept = exercise.forward(*arguments)
    upstream: Any = tuple(normal(rng, *np.shape(part)) for part in as_tuple(outputs))
    upstream = upstream if isinstance(outputs, tuple) else np.asarray(upstream[0])
    gradients = exercise.backward(upstream, kept)
    return Case(label, arguments, upstream, outputs, gradients, kept, sizes, gaps="gaps" in label)


Given = tuple[str, tuple[Any, ...], Mapping[str, float]]


def _linear(rng: Rng) -> Iterator[Given]:
    for label, tokens in (("a batch of sequences", (2, 3)), ("one token", (1, 1)), ("a matrix with gaps", (7,))):
        yield label, (normal(rng, *tokens, 4), normal(rng, 4, 5), normal(rng, 5)), _tokens(*tokens, 4)
    yield "a square weight", (normal(rng, 3, 2, 4), normal(rng, 4, 4), normal(rng, 4)), _tokens(3, 2, 4)
    yield LONG, (normal(rng, 10, 11, 12), normal(rng, 12, 13), normal(rng, 13)), _tokens(10, 11, 12)


def _elementwise(rng: Rng) -> Iterator[Given]:
    for label, shape in (
        ("a batch of sequences", (2, 3, 5)),
        ("a vector", (6,)),
        ("a matrix with gaps", (3, 4)),
        (LONG, (10, 11, 12)),
    ):
        yield label, (1.5 * normal(rng, *shape),), _tokens(*shape)


def _softmax(rng: Rng) -> Iterator[Given]:
    yield "three axes", (normal(rng, 2, 3, 5),), _tokens(2, 3, 5)
    yield "a matrix with gaps", (normal(rng, 4, 6),), {"B": 4, "S": 6}
    yield "rows of length 1", (normal(rng, 3, 1),), {"B": 3}
    yield "saturated scores", (20 * normal(rng, 3, 5),), {"B": 3, "S": 5}
    yield "hidden entries", (normal(rng, 2, 3, 4), lengths(4, 2, 3)[:, None, :]), _tokens(2, 3, 4)
    yield "a row of nothing", (normal(rng, 3, 4), lengths(4, 2, 0, 4)), {"B": 3, "S": 4}
    yield LONG, (normal(rng, 10, 11, 13), lengths(13, *range(4, 14))[:, None, :]), _tokens(10, 11, 13)


def _dropout(rng: Rng) -> Iterator[Given]:
    for label, shape, drops in (
        ("a batch of sequences", (2, 3, 5), True),
        ("a matrix with gaps", (4, 3), True),
        ("nothing dropped (keep is None)", (2, 3), False),
        (LONG, (10, 11, 12), True),
    ):
        sizes = (_tokens(*shape) if drops else {}) | {"s": 1.6}
        yield label, (normal(rng, *shape), keep(rng, *shape) if drops else None, 1.6), sizes


def _embedding(rng: Rng) -> Iterator[Given]:
    table = normal(rng, 6, 4)
    yield "no token twice", (np.array([[3, 1, 5], [0, 2, 4]]), table, 2.0), {"s": 2.0, "B": 2}
    yield "repeated tokens", (np.array([[3, 1, 3], [0, 3, 1]]), table, 2.5), {"s": 2.5, "B": 2}
    yield "one sequence with gaps", (np.array([2, 2, 5]), table, 1.7), {"s": 1.7}
    yield LONG, (rng.integers(0, 12, size=(10, 11)), normal(rng, 12, 13), 1.3), {"s": 1.3, "B": 10}


def _learned_positions(rng: Rng) -> Iterator[Given]:
    for label, (batch, length, width), rows, offset in (
        ("from position 0", (2, 3, 4), 7, 0),
        ("from a later position", (3, 2, 4), 7, 4),
        ("one token with gaps", (1, 1, 4), 7, 2),
        (LONG, (10, 11, 12), 15, 3),
    ):
        x, table = normal(rng, batch, length, width), normal(rng, rows, width)
        yield label, (x, table, offset), _tokens(batch, length, width)


def _layer_norm(rng: Rng) -> Iterator[Given]:
    for label, shape, spread in (
        ("a batch of sequences", (2, 3, 5), 1.0),
        ("a matrix with gaps", (4, 6), 1.0),
        ("one token", (1, 1, 4), 1.0),
        ("nearly constant tokens", (3, 2, 4), 0.01),
        (LONG, (10, 11, 12), 1.0),
    ):
        x = 2.0 + spread * normal(rng, *shape)
        yield label, (x, normal(rng, shape[-1]), normal(rng, shape[-1]), 1e-5), _tokens(*shape)


def _residual(rng: Rng) -> Iterator[Given]:
    for label, shape, drops in (
        ("with dropout", (2, 3, 4), True),
        ("a matrix with gaps", (3, 5), True),
        ("without dropout (keep is None)", (2, 3), False),
        (LONG, (10, 11, 12), True),
    ):
        x, f = normal(rng, *shape), normal(rng, *shape)
        sizes = {"s": 1.6, **_tokens(*shape)} if drops else {}
        yield label, (x, f, keep(rng, *shape) if drops else None, 1.6 if drops else 1.0), sizes


def _norm_and_sum(rng: Rng) -> Iterator[Given]:
    for label, (x, f, *dropped), sizes in _residual(rng):
        width = x.shape[-1]
        yield label, (x, f, normal(rng, width), normal(rng, width), 1e-5, *dropped), sizes


def _feed_forward(rng: Rng) -> Iterator[Given]:
    def weights(width: int = 4, hidden: int = 6) -> tuple[HostArray, ...]:
        return tuple(normal(rng, *size) for size in ((width, hidden), (hidden,), (hidden, width), (width,)))

    yield (
        "with dropout",
        (normal(rng, 2, 3, 4), *weights(), keep(rng, 2, 3, 6), 1.6),
        {"s": 1.6, **_tokens(2, 3, 4)},
    )
    yield "without dropout (keep is None)", (normal(rng, 3, 5, 4), *weights()), _tokens(3, 5, 4)
    yield "one token with gaps", (normal(rng, 1, 1, 4), *weights()), {}
    x, kept = normal(rng, 10, 11, 12), keep(rng, 10, 11, 13)
    yield LONG, (x, *weights(12, 13), kept, 1.6), {"s": 1.6, **_tokens(10, 11, 12)}


def _cross_entropy(rng: Rng) -> Iterator[Given]:
    full, padded = np.array([[1, 4, 2], [2, 3, 1]]), np.array([[1, 4, 0], [2, 0, 0]])
    for label, targets, smoothing in (
        ("no padding", full, 0.0),
        ("padding", padded, 0.0),
        ("padding and label smoothing", padded, 0.1),
        ("nothing but padding", 0 * full, 0.1),
    ):
        counted = max(int(np.sum(targets != 0)), 1)
        sizes = _tokens(2, 3, 5) | {"V": 5.0, "the number of counted tokens": counted}
        yield label, (normal(rng, 2, 3, 5), targets, 0, smoothing), sizes
    yield (
        "other ignore_index, with gaps",
        (20 * normal(rng, 3, 2, 4), np.array([[1, 3], [0, 3], [2, 2]]), 3, 0.2),
        _tokens(3, 2, 4) | {"V": 4.0, "the number of counted tokens": 5.0},
    )
    targets = np.where(lengths(11, *range(2, 12)), rng.integers(1, 12, size=(10, 11)), 0)
    sizes = _tokens(10, 11, 12) | {"V": 12.0, "the number of counted tokens": float(np.sum(targets != 0))}
    yield LONG, (normal(rng, 10, 11, 12), targets, 0, 0.1), sizes


def _attention(rng: Rng) -> Iterator[Given]:
    for label, (batch, heads, queries, keys, width), visible in (
        ("everything visible", (2, 2, 3, 5, 4), None),
        ("as many keys as queries, causal", (2, 3, 4, 4, 5), np.tril(np.ones((4, 4), dtype=bool))),
        ("padding", (3, 2, 3, 4, 3), key_mask(4, 4, 2, 3)),
        ("a query that sees nothing", (2, 1, 3, 4, 2), key_mask(4, 3, 0)),
        ("one query, one key", (2, 2, 1, 1, 3), None),
        ("one head with gaps", (1, 1, 2, 3, 5), None),
        (LONG, (2, 3, 11, 12, 13), key_mask(12, 12, 10)),
    ):
        q, k, v = (normal(rng, batch, heads, length, width) for length in (queries, keys, keys))
        sizes = {"B": batch, "H": heads, "T": queries, "S": keys, "D": width, "√D": math.sqrt(width)}
        yield label, (q, k, v, visible), sizes
    q, k, v = (normal(rng, 3, 2, length, 4) for length in (4, 5, 5))
    sizes = {"B": 3, "H": 2, "T": 4, "S": 5, "D": 4, "√D": 2.0, "s": 1.6}
    yield "dropped weights", (q, k, v, None, keep(rng, 3, 2, 4, 5), 1.6), sizes


def _multi_head_attention(rng: Rng) -> Iterator[Given]:
    for label, (batch, queries, keys, width, heads), visible in (
        ("two heads", (2, 3, 5, 4, 2), None),
        ("three heads, padding", (3, 4, 5, 6, 3), key_mask(5, 5, 2, 4)),
        ("a sequence of padding alone", (2, 2, 3, 4, 2), key_mask(3, 3, 0)),
        ("one head with gaps", (1, 2, 3, 3, 1), None),
        (LONG, (2, 11, 13, 20, 2), key_mask(13, 13, 11)),
    ):
        x, memory = normal(rng, batch, queries, width), normal(rng, batch, keys, width)
        sizes = {"B": batch, "T": queries, "S": keys, "C": width, "H": heads}
        yield label, (x, memory, attention_params(rng, width), heads, visible), sizes


def _encoder_layer(rng: Rng) -> Iterator[Given]:
    for label, (batch, length, width, heads), visible in (
        ("everything visible", (2, 3, 4, 2), None),
        ("padding", (3, 4, 6, 3), key_mask(4, 4, 2, 3)),
        ("one token with gaps", (2, 1, 4, 1), None),
        (LONG, (3, 11, 20, 2), key_mask(11, 11, 10, 8)),
    ):
        x = normal(rng, batch, length, width)
        yield label, (x, layer_params(rng, width, ("attention",)), heads, visible), _tokens(batch, length, width)


def _decoder_layer(rng: Rng) -> Iterator[Given]:
    for label, (batch, queries, keys, width, heads), memory_visible in (
        ("everything in the source visible", (2, 3, 5, 4, 2), None),
        ("padding in the source", (3, 4, 3, 6, 3), key_mask(3, 3, 1, 2)),
        ("one token, a source of padding alone, with gaps", (2, 1, 2, 4, 1), key_mask(2, 2, 0)),
        (LONG, (2, 11, 13, 20, 2), key_mask(13, 13, 11)),
    ):
        x, memory = normal(rng, batch, queries, width), normal(rng, batch, keys, width)
        causal = np.tril(np.ones((queries, queries), dtype=bool))
        params = layer_params(rng, width, ("self_attention", "cross_attention"))
        yield label, (x, memory, params, heads, causal, memory_visible), _tokens(batch, queries, width) | {"S": keys}


INPUTS: dict[str, Callable[[Rng], Iterator[Given]]] = {
    "linear": _linear, "relu": _elementwise, "gelu": _elementwise, "softmax": _softmax, "dropout": _dropout,
    "embedding": _embedding, "learned_positions": _learned_positions, "layer_norm": _layer_norm,
    "residual": _residual, "post_norm": _norm_and_sum, "add_norm": _norm_and_sum, "feed_forward": _feed_forward,
    "cross_entropy": _cross_entropy, "attention": _attention, "multi_head_attention": _multi_head_attention,
    "encoder_layer_post": _encoder_layer, "encoder_layer_pre": _encoder_layer, "decoder_layer": _decoder_layer,
}  # fmt: skip


def normal(rng: Rng, *shape: int) -> HostArray:
    """Standard normal random numbers."""
    return rng.normal(size=shape)


def lengths(size: int, *visible: int) -> HostArray:
    """(len(visible), size) boolean: row b sees its first visible[b] entries."""
    return np.arange(size)[None, :] < np.array(visible)[:, None]


def key_mask(size: int, *visible: int) -> HostArray:
    """The same as a mask of keys, (B, 1, 1, S)."""
    return lengths(size, *visible)[:, None, None, :]


def keep(rng: Rng, *shape: int) -> HostArray:
    """Which entries dropout keeps, boolean; at least one is dropped and one kept."""
    kept = rng.random(shape) < 0.6
    kept.flat[0], kept.flat[-1] = True, False
    return kept


def attention_params(rng: Rng, width: int) -> HostArrays:
    """Weights (C, C) and biases (C,) of multi-head attention."""
    weights = {f"w{letter}": normal(rng, width, width) / math.sqrt(width) for letter in "qkvo"}
    return weights | {f"b{letter}": normal(rng, width) for letter in "qkvo"}


def layer_params(rng: Rng, width: int, attentions: tuple[str, ...]) -> dict[str, HostArrays]:
    """Parameters of an encoder or decoder layer; F = C + 1."""
    params = {name: attention_params(rng, width) for name in attentions}
    for i in range(len(attentions) + 1):
        params[f"norm{i + 1}"] = {"gamma": normal(rng, width), "beta": normal(rng, width)}
    sizes = {"w1": (width, width + 1), "b1": (width + 1,), "w2": (width + 1, width), "b2": (width,)}
    return params | {"feed_forward": {name: normal(rng, *size) for name, size in sizes.items()}}


def _tokens(*shape: int) -> dict[str, float]:
    """B, T, C of a batch, N·C of a matrix, C of a vector, and the number of tokens."""
    letters = {3: "BTC", 2: "NC", 1: "C"}[len(shape)]
    sizes = {letter: float(size) for letter, size in zip(letters, shape, strict=True) if size > 1}
    return sizes | ({"B·T": float(shape[0] * shape[1])} if len(shape) == 3 else {})
