"""The choice of a beam after a step: the likeliest proposals of its hypotheses continue.

The likeliest token of the greedy hypothesis comes first; then log P decides, and ties go by slot. A
hypothesis stays in the slot of its parent, unless a better one does. So few of the cached keys
and values have to move.

The proposals of a row are its k likeliest tokens, computed on the logits' device, so that only k numbers are copied
from it. The k largest numbers of a row lie in those k of its parts that have the largest maxima. So parts are compared
first, and only those k parts are sorted.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array, HostArray

NOBODY = float("-inf")  # the log P of an empty slot
PART = 64  # tokens


def choose(
    logits: Array, log_p: HostArray, greedy: HostArray, room: HostArray, pad_id: int, backend: Backend
) -> tuple[HostArray, HostArray, HostArray, HostArray]:
    """The hypotheses that continue in the beams of n sources: (rows, tokens, log P (n, width), greedy (n,)).

    logits (n·w, V) follow hypotheses of log_p (n, w), NOBODY in an empty slot. greedy (n,) are the slots of the greedy
    hypotheses, −1: none. room (n,) limits how many of each source may continue. rows are the parents among the n·w;
    an empty slot is its own parent and is fed a pad. width is w, or more if room allows more.
    """
    (n, w), most, vocab_size = log_p.shape, int(room.max()), logits.shape[1]
    width = max(w, min(w * vocab_size, most))
    parents, chosen, total = _ranked(*best_tokens(logits, most, backend), log_p, greedy, room)
    there = total > NOBODY  # a NaN counts as empty, too
    places = seats(parents, there, width)
    source, one = there.nonzero()
    to = source, places[source, one]
    rows = np.arange(n)[:, None] * w + np.arange(width) % w
    tokens, onward = np.full((n, width), pad_id, dtype=np.int64), np.full((n, width), NOBODY)
    rows[to], tokens[to], onward[to] = source * w + parents[source, one], chosen[source, one], total[source, one]
    return rows, tokens, onward, np.where((greedy >= 0) & there[:, 0], places[:, 0], -1)


def _ranked(
    tokens: HostArray, proposed: HostArray, log_p: HostArray, greedy: HostArray, room: HostArray
) -> tuple[HostArray, HostArray, HostArray]:
    """Slots, tokens and log P (n, m) of each source's best among proposals (n·w, k), each row's likeliest first."""
    (n, w), k = log_p.shape, tokens.shape[1]
    total = (log_p[:, :, None] + proposed.reshape(n, w, k)).reshape(n, w * k)
    key = -total
    led = (greedy >= 0).nonzero()[0]
    key[led, greedy[led] * k] = NOBODY
    order = np.argsort(key, axis=1, kind="stable")[:, : int(room.max())]
    total = np.take_along_axis(total, order, axis=1)
    total[np.arange(order.shape[1]) >= room[:, None]] = NOBODY
    return order // k, np.take_along_axis(tokens.reshape(n, w * k), order, axis=1), total


def seats(parents: HostArray, there: HostArray, width: int) -> HostArray:
    """The slots, out of width, of hypotheses (n, m) whose parents are in the slots parents, the best first.

    The first child of a parent stays in its slot, the others take empty ones. there (n, m) is False for no hypothesis.
    """
    m = parents.shape[1]
    siblings = (parents[:, :, None] == parents[:, None, :]) & there[:, None, :]
    moves = (siblings & (np.arange(m)[:, None] > np.arange(m))).any(axis=2) & there  # not the first child
    taken = np.zeros((parents.shape[0], width), dtype=bool)
    source, one = (there & ~moves).nonzero()
    taken[source, parents[source, one]] = True
    empty = np.argsort(taken, axis=1, kind="stable")  # the empty slots first, in their order
    return np.where(moves, np.take_along_axis(empty, np.cumsum(moves, axis=1) - 1, axis=1), parents)


def best_tokens(logits: Array, k: int, backend: Backend) -> tuple[HostArray, HostArray]:
    """The k likeliest tokens of logits (B, V), likeliest first, ties by the smaller id.

    Returns (tokens (B, k) int64, log-probabilities (B, k) float64) on the host, V in k's place if that is less.
    """
    k = min(k, logits.shape[1])
    if logits.shape[1] <= 2 * k * PART:
        values: HostArray = backend.host(logits)
        ids, log_sum = np.broadcast_to(np.arange(values.shape[1]), values.shape), _log_sum(values)
    else:
        ids, values = _of_best_parts(logits, k, backend)
        log_sum = backend.host(_log_sum(logits))
    row, order = np.arange(values.shape[0])[:, None], _order(values, k)
    log_p = values[row, order].astype(np.float64) - log_sum.astype(np.float64)
    return ids[row, order], np.minimum(log_p, 0.0)  # rounding must not give a probability above 1


def _order(values: HostArray, k: int) -> HostArray:
    """The indices of the k largest of each row, (B, k), largest first, ties by the smaller index; NaN is smallest."""
    k = min(k, values.shape[1])
    left = np.where(np.isnan(values), -np.inf, values)
    row, order = np.arange(values.shape[0]), np.empty((values.shape[0], k), dtype=np.int64)
    for i in range(k):  # k is small, so k passes are faster than sorting all
        order[:, i] = at = left.argmax(axis=1)
        least = left[row, at]
        left[row, at] = -np.inf
    if (least == -np.inf).any():  # then taken entries cannot be told from those left
        return np.argsort(-values, axis=-1, kind="stable")[:, :k]
    return order


def _log_sum(logits: Array) -> Array:
    """log Σ exp over the vocabulary, (B, 1)."""
    xp = namespace(logits)
    peak = xp.max(logits, axis=-1, keepdims=True)
    return peak + xp.log(xp.sum(xp.exp(logits - peak), axis=-1, keepdims=True))


def _of_best_parts(logits: Array, k: int, backend: Backend) -> tuple[HostArray, HostArray]:
    """Ids (B, k·PART), ascending, and logits (B, k·PART) of tokens, the k likeliest among them."""
    xp, (batch, vocab_size) = namespace(logits), logits.shape
    count = -(-vocab_size // PART)
    if vocab_size % PART:
        filling = xp.full((batch, count * PART - vocab_size), -xp.inf, dtype=logits.dtype, device=device_of(logits))
        logits = xp.concat([logits, filling], axis=-1)
    parts = xp.reshape(logits, (batch * count, PART))
    peaks: HostArray = backend.host(xp.reshape(xp.max(parts, axis=-1), (batch, count)))
    chosen = np.sort(np.argsort(-peaks, axis=-1, kind="stable")[:, :k], axis=-1)  # (B, k)
    rows = backend.integers((np.arange(batch)[:, None] * count + chosen).ravel())
    values = backend.host(xp.take(parts, rows, axis=0)).reshape(batch, k * PART)
    return (chosen[:, :, None] * PART + np.arange(PART)).reshape(batch, k * PART), values
