"""Cross-entropy in one pass over each token's logits, and one in backward; no distribution is kept.

The plain pair keeps p and q, 2·N·V numbers. Here two numbers a token are kept, the largest logit and
1/Σ exp, and p is computed again where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npformer.backend.numba.compiling import kernel
from npformer.backend.numba.exponential import exponential
from npformer.backend.numba.maximum import comparable, largest
from npformer.backend.numba.rows import contiguous, contiguous_rows
from npformer.backend.ops import Pair
from npformer.backend.workspace import empty
from npformer.functional.cross_entropy import expect_loss
from npformer.typing import Array


class CrossEntropyCache(NamedTuple):
    logits: Array  # (..., V)  the caller's own, not a copy
    targets: Array  # (N,)
    counts: Array  # (N,)  which tokens count
    label_smoothing: float
    top: Array  # (N,)  the largest logit
    inverse: Array  # (N,)  1/Σ exp(z − top)
    num_counted: int


def cross_entropy_forward(
    logits: Array, targets: Array, ignore_index: int | None = 0, label_smoothing: float = 0.0
) -> tuple[Array, CrossEntropyCache]:
    expect_loss(logits, targets, label_smoothing)
    rows = contiguous_rows(logits)
    flat = contiguous(targets).reshape(targets.size).astype(np.int64, copy=False)
    counts = np.ones(flat.shape, dtype=bool) if ignore_index is None else flat != ignore_index
    top, inverse, losses = (np.empty(flat.shape, dtype=logits.dtype) for _ in range(3))
    token_losses(rows, flat, counts, label_smoothing, top, inverse, losses)
    num_counted = max(1, int(np.count_nonzero(counts)))
    loss = np.sum(losses, dtype=logits.dtype) / np.asarray(num_counted, dtype=logits.dtype)
    return loss, CrossEntropyCache(logits, flat, counts, label_smoothing, top, inverse, num_counted)


def cross_entropy_backward(dloss: Array | float, cache: CrossEntropyCache, into: Sequence[Array | None] = ()) -> Array:
    logits, targets, counts, label_smoothing, top, inverse, num_counted = cache
    dlogits = empty(logits.shape, logits.dtype)
    token_losses_backward(
        contiguous_rows(logits), targets, counts, label_smoothing, top, inverse, float(dloss) / num_counted,
        contiguous_rows(dlogits),
    )  # fmt: skip
    return dlogits


@kernel("Xkbfyyy")
def token_losses(logits, targets, counts, label_smoothing, top, inverse, losses):
    """Each token's loss, 0 where it does not count, and what backward needs."""
    own = logits.dtype.type
    count, classes = logits.shape
    compared = comparable(logits)
    for n in range(count):
        losses[n] = own(0)
        if not counts[n]:
            continue
        z = logits[n]
        highest = largest(compared[n])
        total, shifted_sum = own(0), own(0)
        for v in range(classes):
            shifted = z[v] - highest
            total += exponential(shifted)
            shifted_sum += shifted
        top[n], inverse[n] = highest, own(1) / total
        expected = own(label_smoothing / classes) * shifted_sum if label_smoothing > 0 else own(0)
        if 0 <= targets[n] < classes:
            expected += own(1 - label_smoothing) * (z[targets[n]] - highest)
        losses[n] = np.log(total) - expected


@kernel("XkbfxxfY")
def token_losses_backward(logits, targets, counts, label_smoothing, top, inverse, share, dlogits):
    """(p − q)·share, 0 where the token does not count."""
    own = logits.dtype.type
    count, classes = logits.shape
    part, even = own(share), own(label_smoothing / classes)
    for n in range(count):
        z, dz = logits[n], dlogits[n]
        if not counts[n]:
            dz[:] = own(0)
            continue
        highest, factor = top[n], inverse[n]
        for v in range(classes):
            dz[v] = (exponential(z[v] - highest) * factor - even) * part
        if 0 <= targets[n] < classes:
            dz[targets[n]] -= own(1 - label_smoothing) * part


CROSS_ENTROPY = Pair(cross_entropy_forward, cross_entropy_backward)
