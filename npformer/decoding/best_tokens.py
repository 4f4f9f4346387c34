"""The k likeliest tokens of each row, computed on the logits' device, so that only k numbers are copied from it.

The k largest numbers of a row lie in those k of its parts that have the largest maxima. So parts are compared first,
and only those k parts are sorted.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.decoding.opening import Host
from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array

PART = 64  # tokens


def best_tokens(logits: Array, k: int, backend: Backend) -> tuple[Host, Host]:
    """The k likeliest tokens of logits (B, V), likeliest first, ties by the smaller id.

    Returns (tokens (B, k) int64, log-probabilities (B, k) float64) on the host, V in k's place if that is less.
    """
    k = min(k, logits.shape[1])
    if logits.shape[1] <= 2 * k * PART:
        values: Host = backend.host(logits)
        ids, log_sum = np.broadcast_to(np.arange(values.shape[1]), values.shape), _log_sum(values)
    else:
        ids, values = _of_best_parts(logits, k, backend)
        log_sum = backend.host(_log_sum(logits))
    each, order = np.arange(values.shape[0])[:, None], _order(values, k)
    log_p = values[each, order].astype(np.float64) - log_sum.astype(np.float64)
    return ids[each, order], np.minimum(log_p, 0.0)  # rounding must not give a probability above 1


def _order(values: Host, k: int) -> Host:
    """The indices of the k largest of each row, (B, k), largest first, ties by the smaller index; NaN is smallest."""
    k = min(k, values.shape[1])
    left = np.where(np.isnan(values), -np.inf, values)
    each, order = np.arange(values.shape[0]), np.empty((values.shape[0], k), dtype=np.int64)
    for i in range(k):  # k is small, so k passes are faster than sorting all
        order[:, i] = at = left.argmax(axis=1)
        least = left[each, at]
        left[each, at] = -np.inf
    if (least == -np.inf).any():  # then taken entries cannot be told from those left
        return np.argsort(-values, axis=-1, kind="stable")[:, :k]
    return order


def _log_sum(logits: Array) -> Array:
    """log Σ exp over the vocabulary, (B, 1)."""
    xp = namespace(logits)
    peak = xp.max(logits, axis=-1, keepdims=True)
    return peak + xp.log(xp.sum(xp.exp(logits - peak), axis=-1, keepdims=True))


def _of_best_parts(logits: Array, k: int, backend: Backend) -> tuple[Host, Host]:
    """Ids (B, k·PART), ascending, and logits (B, k·PART) of tokens, the k likeliest among them."""
    xp, (batch, vocab_size) = namespace(logits), logits.shape
    count = -(-vocab_size // PART)
    if vocab_size % PART:
        filling = xp.full((batch, count * PART - vocab_size), -xp.inf, dtype=logits.dtype, device=device_of(logits))
        logits = xp.concat([logits, filling], axis=-1)
    parts = xp.reshape(logits, (batch * count, PART))
    peaks: Host = backend.host(xp.reshape(xp.max(parts, axis=-1), (batch, count)))
    chosen = np.sort(np.argsort(-peaks, axis=-1, kind="stable")[:, :k], axis=-1)  # (B, k)
    rows = backend.integers((np.arange(batch)[:, None] * count + chosen).ravel())
    values = backend.host(xp.take(parts, rows, axis=0)).reshape(batch, k * PART)
    return (chosen[:, :, None] * PART + np.arange(PART)).reshape(batch, k * PART), values
