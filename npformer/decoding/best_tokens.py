"""The likeliest tokens of each row, found where the logits are: of a large vocabulary few numbers leave the device.

The k largest of a row lie in the k parts of it with the largest maxima: so parts are compared first, and
only those k are sorted.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.decoding.opening import Host
from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array

PART = 64  # tokens


def best_tokens(logits: Array, k: int, backend: Backend) -> tuple[Host, Host]:
    """The k likeliest tokens of logits (B, V), likeliest first, of equally likely ones the smallest id.

    Returns (tokens (B, k) int64, log-probabilities (B, k) float64) on the host, V in k's place if that is less.
    """
    xp = namespace(logits)
    peak = xp.max(logits, axis=-1, keepdims=True)
    log_sum = backend.host(peak + xp.log(xp.sum(xp.exp(logits - peak), axis=-1, keepdims=True)))  # (B, 1)
    values: Host
    ids, values = _candidates(logits, k, backend)
    order = np.argsort(-values, axis=-1, kind="stable")[:, :k]
    best = np.take_along_axis(values, order, axis=-1).astype(np.float64)
    log_p = np.minimum(best - log_sum.astype(np.float64), 0.0)  # rounding makes nothing more than certain
    return np.take_along_axis(ids, order, axis=-1), log_p


def _candidates(logits: Array, k: int, backend: Backend) -> tuple[Host, Host]:
    """Ids (B, n), ascending, and logits (B, n) of tokens, the k likeliest among them."""
    xp, (batch, vocab_size) = namespace(logits), logits.shape
    count = -(-vocab_size // PART)
    if count <= 2 * k:
        return np.broadcast_to(np.arange(vocab_size), (batch, vocab_size)), backend.host(logits)
    if vocab_size % PART:
        filling = xp.full((batch, count * PART - vocab_size), -xp.inf, dtype=logits.dtype, device=device_of(logits))
        logits = xp.concat([logits, filling], axis=-1)
    parts = xp.reshape(logits, (batch * count, PART))
    peaks: Host = backend.host(xp.reshape(xp.max(parts, axis=-1), (batch, count)))
    chosen = np.sort(np.argsort(-peaks, axis=-1, kind="stable")[:, :k], axis=-1)  # (B, k)
    rows = backend.integers((np.arange(batch)[:, None] * count + chosen).ravel())
    values = backend.host(xp.take(parts, rows, axis=0)).reshape(batch, k * PART)
    return (chosen[:, :, None] * PART + np.arange(PART)).reshape(batch, k * PART), values
