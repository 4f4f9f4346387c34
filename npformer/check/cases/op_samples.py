"""Sample inputs of every operation: random ones of any sizes, and fixed ones on which gradients often fail.

A function with the operation's name makes the random inputs, in the order of the forward's arguments. Its users are
``check/cases/catalogue.py``, with small sizes and random options, and tests, with a model's sizes
and usual options. The fixed ones are the cases of the catalogue: random numbers with no zeros or
ones, repeated tokens, padding, a query that sees nothing, length 1, saturated scores, gaps in memory, dropout on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from npformer.check.cases.case import DRAW, Case, CaseSizes, op, padding
from npformer.check.measures import with_gaps
from npformer.functional import AttentionMask
from npformer.typing import HostArray

Inputs = tuple[Any, ...]
Normals = Callable[..., HostArray]  # of a shape


def linear(s: CaseSizes) -> Inputs:
    return s.of("BTI"), s.of("IO"), s.of("O")


def relu(s: CaseSizes) -> Inputs:
    return (s.choice(1, 0.5, 3) * s.of("BTF"),)


gelu = relu


def softmax(s: CaseSizes) -> Inputs:
    shape = s.B, s.H, s.T, s.S
    return s.choice(1, 0.1, 5) * s.normal(*shape), s.choice(None, s.visible(*shape))


def dropout(s: CaseSizes) -> Inputs:
    return *relu(s), s.draw()


def embedding(s: CaseSizes) -> Inputs:
    return s.ids(s.V), s.of("VC"), s.C**0.5


def sinusoidal_positions(s: CaseSizes) -> Inputs:
    return s.of("BTC"), s.choice(0, 1, 2, 3, 4)


def learned_positions(s: CaseSizes) -> Inputs:
    offset = s.choice(0, 1, 4)
    return s.of("BTC"), s.normal(s.T + offset + s.choice(0, 1, 2), s.C), offset


def rotary(s: CaseSizes) -> Inputs:
    return s.heads(s.T, s.D + s.D % 2), s.choice(0, 1, 4), s.choice(10000.0, 10.0)


def relative_bias(s: CaseSizes) -> Inputs:
    return s.normal(2 * s.K, s.H), s.T, s.S, s.choice(0, 1, 2), s.choice(False, True), s.choice(8, 2, 3) * s.K


def layer_norm(s: CaseSizes) -> Inputs:
    return s.of("BTC"), s.of("C"), s.of("C"), s.choice(1e-5, 1e-2)


def batch_norm(s: CaseSizes) -> Inputs:
    counts = s.choice(None, s.visible(s.B, s.T, least=2))  # with a single token the normalised value is 0
    return s.of("BTC"), s.of("C"), s.of("C"), counts


def batch_norm_inference(s: CaseSizes) -> Inputs:
    return *layer_norm(s)[:3], s.of("C"), 0.1 + s.of("C") ** 2


def attention(s: CaseSizes) -> Inputs:
    mask = AttentionMask(
        key_visible=s.choice(s.visible(s.B, s.S), None),
        causal=s.choice(True, False),
        query_offset=s.choice(0, 1, 2),
        window=s.choice(None, None, 1, 2, 3),
    )
    return s.heads(s.T, s.D), s.heads(s.S, s.D), s.heads(s.S, s.D), mask, s.draw()


def biased_attention(s: CaseSizes) -> Inputs:
    q, k, v, mask, draw = attention(s)
    return q, k, v, s.of("HTS"), mask, draw


def local_attention(s: CaseSizes) -> Inputs:
    window = s.choice(max(1, s.T // 8), 2, 3, None)
    mask = AttentionMask(
        key_visible=s.choice(s.visible(s.B, s.T), None),
        causal=s.choice(True, False),
        window=window,
        stride=s.choice(None if window else 2, 1, 2, 3),
    )
    return *(s.heads(s.T, s.D) for _ in range(3)), mask, s.draw()


def linear_attention(s: CaseSizes) -> Inputs:
    causal = s.choice(False, True)
    keys = s.T if causal else s.S
    mask = AttentionMask(s.choice(s.visible(s.B, keys), None), causal)
    return s.heads(s.T, s.D), s.heads(keys, s.D), s.heads(keys, s.D), mask


def residual(s: CaseSizes) -> Inputs:
    return s.of("BTC"), s.of("BTC"), s.draw()


def post_norm(s: CaseSizes) -> Inputs:
    return *residual(s)[:2], s.of("C"), s.of("C"), 1e-5, s.draw()


add_norm = post_norm


def feed_forward(s: CaseSizes) -> Inputs:
    weights = s.of("CF"), s.of("F"), s.of("FC"), s.of("C")
    return s.of("BTC"), *weights, s.choice("relu", "gelu"), s.draw()


def cross_entropy(s: CaseSizes) -> Inputs:
    return s.of("BTV"), s.ids(s.V), s.choice(0, None), s.choice(0.0, 0.1)


def gru(s: CaseSizes) -> Inputs:
    scale = s.C**-0.5  # of sums over C states: gates stay open
    weights = scale * s.normal(s.I, 3 * s.C), s.normal(3 * s.C), scale * s.normal(s.C, 3 * s.C), s.normal(3 * s.C)
    return s.of("BTI"), s.of("BC"), *weights, s.choice(None, s.visible(s.B, s.T))


def conv1d(s: CaseSizes) -> Inputs:
    return s.of("BTI"), s.of("KIO"), s.of("O"), s.choice(False, True)


def op_cases() -> Iterator[Case]:
    """The operations, on random inputs and on the awkward ones."""
    yield from _of_transformers(_normals(0))
    yield from _of_variants(_normals(3))


def _normals(seed: int) -> Normals:
    rng = np.random.default_rng(seed)
    return lambda *shape: rng.normal(size=shape)


def _of_transformers(normal: Normals) -> Iterator[Case]:
    """The usual operations of a Transformer."""
    yield op("linear", "", normal(2, 3, 4), normal(4, 5), normal(5))
    token = map(with_gaps, (normal(1, 1, 4), normal(4, 3), normal(3)))
    yield op("linear", "one token, gaps in memory", *token, length_one=True)
    yield op("relu", "", normal(3, 7))
    yield op("gelu", "", 2 * normal(3, 7))
    yield op("softmax", "", normal(2, 3, 5))
    yield op("softmax", "a row of nothing", normal(3, 4), np.arange(12).reshape(3, 4) % 4 < [[2], [0], [4]])
    yield op("softmax", "saturated, gaps in memory", with_gaps(30 * normal(2, 5)), float64_only=True)
    yield op("dropout", "", normal(5, 9), DRAW)
    yield op("embedding", "repeated tokens", np.array([[3, 1, 3], [0, 3, 4]]), normal(6, 4), 2.0)
    yield op("sinusoidal_positions", "odd width", normal(2, 3, 5), 4)
    yield op("learned_positions", "", normal(2, 3, 4), normal(8, 4), 2)
    yield op("layer_norm", "", normal(2, 3, 5), normal(5), normal(5), 1e-5)
    rows = with_gaps(2 + 1e-2 * normal(3, 4))
    yield op("layer_norm", "nearly constant rows, gaps in memory", rows, normal(4), normal(4), 1e-5)
    q, k, v = normal(2, 2, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 6)  # √D is no number that occurs elsewhere
    yield op("attention", "", q, k, v)
    yield op("attention", "padding, a query that sees nothing, dropout", q, k, v, padding(5, 3, 0), DRAW)
    yield op("attention", "causal and padding", k, k + 0.5, v, AttentionMask(padding(5, 5, 2).key_visible, True))
    yield op("attention", "window and offset", q, k, v, AttentionMask(causal=True, query_offset=2, window=2))
    yield op("attention", "length 1", *(normal(2, 1, 1, 3) for _ in range(3)), length_one=True)
    yield op("attention", "saturated, gaps in memory", *map(with_gaps, (9 * q, 9 * k, v)))
    yield op("residual", "dropout", normal(2, 3, 4), normal(2, 3, 4), DRAW)
    for name in ("post_norm", "add_norm"):
        yield op(name, "dropout", normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(4), 1e-5, DRAW)
    for activation in ("relu", "gelu"):
        weights = (normal(4, 6), normal(6), normal(6, 4), normal(4))
        yield op("feed_forward", f"{activation}, dropout", normal(2, 3, 4), *weights, activation, DRAW)
    targets = np.array([[1, 4, 0], [2, 0, 0]])
    yield op("cross_entropy", "padding", normal(2, 3, 5), targets, 0, 0.0)
    yield op("cross_entropy", "padding, label smoothing", normal(2, 3, 5), targets, 0, 0.1)
    yield op("cross_entropy", "saturated, nothing ignored", 20 * normal(2, 3, 5), targets, None, 0.1)


def _of_variants(normal: Normals) -> Iterator[Case]:
    """Alternative operations, and those from before Transformers."""
    yield op("rotary", "", normal(2, 2, 3, 6), 2)
    yield op("rotary", "another base, gaps in memory", with_gaps(normal(2, 5, 4)), 0, 50.0)
    yield op("relative_bias", "near and far, both ways", normal(8, 3), 6, 9, 0, False, 5)
    yield op("relative_bias", "causal, offset", normal(5, 2), 3, 7, 4, True, 4)
    counts = np.array([[True, True, False], [True, False, False]])
    yield op("batch_norm", "padding", normal(2, 3, 5), normal(5), normal(5), counts)
    statistics = (normal(5), 1 + normal(5) ** 2)
    yield op("batch_norm_inference", "gaps in memory", with_gaps(normal(2, 3, 5)), normal(5), normal(5), *statistics)
    q, k, v = normal(2, 2, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 6)
    nearer = padding(5, 3, 0)
    yield op("biased_attention", "", q, k, v, normal(2, 3, 5))
    yield op("biased_attention", "padding, a query that sees nothing, dropout", q, k, v, normal(2, 3, 5), nearer, DRAW)
    x7, y7, z7 = (normal(2, 2, 7, 4) for _ in range(3))
    seen = np.arange(7)[None, :] < np.array([[7], [3]])
    yield op("local_attention", "window, padding, dropout", x7, y7, z7, AttentionMask(seen, window=2), DRAW)
    yield op("local_attention", "causal, window and stride", x7, y7, z7, AttentionMask(causal=True, window=2, stride=3))
    yield op("local_attention", "stride, padding", x7, y7, with_gaps(z7), AttentionMask(seen, stride=3), DRAW)
    # dq is Σ φ(k)·(v − out), as a difference of two sums: in float32 less is left of it than the budget says
    yield op("linear_attention", "", q, k, v, float64_only=True)
    yield op("linear_attention", "padding, a query that sees nothing", q, k, v, nearer, float64_only=True)
    yield op("linear_attention", "causal, padding", x7, y7, z7, AttentionMask(seen, causal=True))
    long = [normal(2, 1, 66, 2) for _ in range(3)]
    yield op("linear_attention", "causal, two chunks", *long, AttentionMask(causal=True))
    recurrent = (normal(3, 12), normal(12), normal(4, 12), normal(12))
    yield op("gru", "padding", normal(2, 5, 3), normal(2, 4), *recurrent, np.arange(5)[None, :] < [[5], [3]])
    yield op("gru", "gaps in memory", with_gaps(normal(2, 3, 3)), with_gaps(normal(2, 4)), *recurrent)
    yield op("conv1d", "", normal(2, 5, 3), normal(3, 3, 4), normal(4))
    yield op("conv1d", "causal, wider than the sequence", normal(2, 3, 2), normal(5, 2, 4), normal(4), True)


def op_sample(name: str) -> Case:
    """The first case of an operation."""
    return next(case for case in op_cases() if case.name.partition(":")[0] == name)
