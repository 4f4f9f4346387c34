"""Cross-entropy in one pass over each token's logits, and one in backward; no distribution is kept.

The plain pair keeps p and q, 2·N·V numbers. This one keeps two numbers per token, the largest logit and 1/Σ exp;
backward computes p again from them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import OutRows, OutVector, OutWhole, Rows, Vector, Whole
from npformer.engine.numba.compiling import kernel
from npformer.engine.numba.exponential import exponential
from npformer.engine.numba.maximum import comparable, largest
from npformer.engine.numba.recording import number
from npformer.engine.numba.rows import contiguous, contiguous_rows
from npformer.functional.cross_entropy import expect_loss
from npformer.typing import Array


class CrossEntropyCache(NamedTuple):
    logits: Array  # (..., V)  the caller's own, not a copy
    targets: Array  # (N,)
    ignored: tuple[bool, int]  # whether tokens of some index do not count, and which
    label_smoothing: float
    top: Array  # (N,)  the largest logit
    inverse: Array  # (N,)  1/Σ exp(z − top)
    num_counted: Array  # (1,)


def cross_entropy_forward(
    logits: Array, targets: Array, ignore_index: int | None = 0, label_smoothing: float = 0.0
) -> tuple[Array, CrossEntropyCache]:
    expect_loss(logits, targets, label_smoothing)
    flat = contiguous(targets).reshape(targets.size).astype(np.int64, copy=False)
    ignored = (ignore_index is not None, ignore_index or 0)
    top, inverse = empty(flat.shape, logits.dtype), empty(flat.shape, logits.dtype)
    num_counted, loss = empty((1,), np.int64), empty((1,), logits.dtype)
    token_losses(contiguous_rows(logits), flat, *ignored, label_smoothing, top, inverse, num_counted, loss)
    return loss.reshape(()), CrossEntropyCache(logits, flat, ignored, label_smoothing, top, inverse, num_counted)


def cross_entropy_backward(dloss: Array | float, cache: CrossEntropyCache) -> tuple[Array]:
    logits, targets, ignored, label_smoothing, top, inverse, num_counted = cache
    dlogits = empty(logits.shape, logits.dtype)
    token_losses_backward(
        contiguous_rows(logits), targets, *ignored, label_smoothing, top, inverse, num_counted, number(dloss, float),
        contiguous_rows(dlogits),
    )  # fmt: skip
    return (dlogits,)


@kernel(calls="cross_entropy.forward")
def token_losses(
    logits: Rows, targets: Whole, has_ignored: bool, ignored: int, label_smoothing: float,
    top: OutVector, inverse: OutVector, num_counted: OutWhole, loss: OutVector,
):  # fmt: skip
    """Write the mean loss, the number of counted tokens (at least 1), and what backward needs."""
    dtype = logits.dtype.type
    count, classes = logits.shape
    compared = comparable(logits)
    counted, losses = 0, 0.0
    for n in range(count):
        if has_ignored and targets[n] == ignored:
            continue
        z = logits[n]
        highest = largest(compared[n])
        total, shifted_sum = dtype(0), dtype(0)
        for v in range(classes):
            shifted = z[v] - highest
            total += exponential(shifted)
            shifted_sum += shifted
        top[n], inverse[n] = highest, dtype(1) / total
        expected = dtype(label_smoothing / classes) * shifted_sum if label_smoothing > 0 else dtype(0)
        if 0 <= targets[n] < classes:
            expected += dtype(1 - label_smoothing) * (z[targets[n]] - highest)
        losses += np.log(total) - expected
        counted += 1
    num_counted[0] = max(1, counted)
    loss[0] = losses / num_counted[0]


@kernel(calls="cross_entropy.backward")
def token_losses_backward(
    logits: Rows, targets: Whole, has_ignored: bool, ignored: int, label_smoothing: float,
    top: Vector, inverse: Vector, num_counted: Whole, dloss: float, dlogits: OutRows,
):  # fmt: skip
    """Write dlogits = (p − q)·dloss/N; 0 for a token that does not count."""
    dtype = logits.dtype.type
    count, classes = logits.shape
    part, even = dtype(dloss / num_counted[0]), dtype(label_smoothing / classes)
    for n in range(count):
        z, dz = logits[n], dlogits[n]
        if has_ignored and targets[n] == ignored:
            dz[:] = dtype(0)
            continue
        highest, factor = top[n], inverse[n]
        for v in range(classes):
            dz[v] = (exponential(z[v] - highest) * factor - even) * part
        if 0 <= targets[n] < classes:
            dz[targets[n]] -= dtype(1 - label_smoothing) * part
