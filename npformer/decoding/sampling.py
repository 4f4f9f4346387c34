"""Sampling: the next token is drawn from the model's distribution, with temperature, top-k and top-p.

    p ∝ exp(logits/temperature)          < 1 sharpens, > 1 flattens
    top_k                                then only the k likeliest tokens
    top_p                                then only the fewest likeliest tokens whose p add up to at least top_p

in this order. After each of them p is divided by its sum, so top_p is a share of what top_k kept. The token is the
first at which the sum of p, over the vocabulary, exceeds a number u that is uniform in [0, 1).

A row's numbers u depend on the seed, on the row's input, and on the number of equal rows before
it in the batch. So a row is sampled as it would be alone, and copies of a row are sampled differently.

Source: top-p, Holtzman et al. 2020, arXiv:1904.09751, section 3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.decoding.opening import Opening, Writer, eos_token, expect_count, open_texts, with_room
from npformer.decoding.writing import Stop, write
from npformer.errors import ConfigError, whole_number
from npformer.typing import Array, HostArray


@with_room
def sample(
    model: Writer,
    src: Array,
    max_len: int = 32,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    bos_id: int = 1,
    eos_id: int | None = 2,
    stop: Stop | None = None,
) -> HostArray:
    """Decode as ``greedy`` does, but draw each token. The same seed draws the same tokens.

    Raises ConfigError unless temperature > 0, top_k ≥ 1, 0 < top_p ≤ 1 and seed ≥ 0, and what greedy raises.
    """
    _expect_options(temperature, top_k, top_p, seed)
    openings = open_texts(model, src, max_len, bos_id, stop)
    sources = dict(_generators(seed, openings))

    def draw(logits: Array, rows: HostArray, t: int) -> HostArray:
        p = probabilities(model.backend.host(logits), temperature, top_k, top_p)
        return drawn(p, np.array([sources[row].random() for row in rows]))

    return write(model, openings, draw, eos_id=eos_token(eos_id), stop=stop)


def probabilities(
    logits: HostArray, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> HostArray:
    """The distribution to draw from, (B, V) float64, for logits (B, V); of equally likely tokens the first are kept."""
    logits = logits.astype(np.float64)
    with np.errstate(over="ignore"):  # a very low temperature: all logits but the largest become −∞
        p: HostArray = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
    p /= p.sum(axis=-1, keepdims=True)
    if top_k is None and top_p in (None, 1):
        return p
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    if top_k is not None:
        ranked[:, top_k:] = 0
        ranked /= ranked.sum(axis=-1, keepdims=True)
    if top_p not in (None, 1):
        ranked[:, 1:][np.cumsum(ranked, axis=-1)[:, :-1] >= top_p] = 0  # those before suffice
        ranked /= ranked.sum(axis=-1, keepdims=True)
    np.put_along_axis(p, order, ranked, axis=-1)
    return p


def drawn(p: HostArray, u: HostArray) -> HostArray:
    """Tokens (B,) int64, drawn from p (B, V) by numbers u (B,) in [0, 1)."""
    total: HostArray = np.cumsum(p, axis=-1)
    reached = total > u[:, None] * total[:, -1:]
    last = p.shape[-1] - 1 - np.argmax(p[:, ::-1] > 0, axis=-1)  # where rounding reaches nothing
    tokens: HostArray = np.where(reached.any(axis=-1), np.argmax(reached, axis=-1), last)
    return tokens


def _generators(seed: int, openings: list[Opening]) -> Iterator[tuple[int, np.random.Generator]]:
    """One generator for each row, with its index; equal rows are in the same opening, or in their order."""
    seen: Counter[tuple[int, ...]] = Counter()
    for row, ids in [pair for each in openings for pair in zip(each.rows.tolist(), each.inputs, strict=True)]:
        tokens = tuple(ids.tolist())
        yield row, np.random.default_rng([seed, seen[tokens], *tokens])
        seen[tokens] += 1


def _expect_options(temperature: Any, top_k: Any, top_p: Any, seed: Any) -> None:
    if not 0 < temperature < np.inf:
        raise ConfigError(f"temperature: expected a number > 0, got {temperature!r}; greedy is the limit at 0")
    if top_k is not None:
        expect_count("top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ConfigError(f"top_p: expected 0 < top_p <= 1, got {top_p!r}")
    whole_number("seed", seed, at_least=0)
