"""Softmax and cross-entropy in one pass over blocks of rows, without a target distribution.

The forward keeps only exp(z − max z) and its sum per row. The target distribution is never
an array: its contribution is read from z at the targets, and backward subtracts it
there. The plain kernel keeps p, q and a one-hot matrix, each as large as the logits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, filled, row_blocks
from npformer.backend.workspace import empty
from npformer.functional.cross_entropy import expect_loss
from npformer.typing import Array


class CrossEntropyCache(NamedTuple):
    powers: Array  # (..., V)  exp(z − max z)
    sums: Array  # (N,)  of powers over V
    counted: Array  # (N,)  1 where the token counts, else 0
    targets: Array  # (N,)  int64; 0 in place of a target outside [0, V)
    at_target: Array  # (N,)  1 − ε, the target's share of q; 0 for a target outside [0, V)
    elsewhere: float  # smoothing/V
    num_counted: int  # at least 1


def cross_entropy_forward(
    logits: Array, targets: Array, ignore_index: int | None = 0, label_smoothing: float = 0.0
) -> tuple[Array, CrossEntropyCache]:
    """As the plain kernel: mean loss, in nats per counted token, of logits (..., V) at targets (...), a scalar ()."""
    expect_loss(logits, targets, label_smoothing)
    z, V = as_matrix(logits), logits.shape[-1]
    flat = targets.reshape(-1)
    counted = np.ones(flat.shape, z.dtype) if ignore_index is None else (flat != ignore_index).astype(z.dtype)
    flat = flat.astype(np.int64)
    is_class = (flat >= 0) & (flat < V)
    cache = CrossEntropyCache(
        powers=empty(logits.shape, z.dtype),
        sums=np.empty(flat.shape, z.dtype),
        counted=counted,
        targets=flat * is_class,
        at_target=is_class * z.dtype.type(1 - label_smoothing),
        elsewhere=label_smoothing / V if V else 0.0,
        num_counted=max(1, int(np.count_nonzero(counted))),
    )
    losses = np.empty_like(cache.sums)
    for rows in row_blocks(*z.shape):
        losses[rows] = _losses(z[rows], rows, cache)
    return counted.dot(losses) / cache.num_counted, cache


def _losses(z: Array, rows: slice, cache: CrossEntropyCache) -> Array:
    """The losses (n,) of these rows z (n, V); writes their powers and sums."""
    powers, sums, V = as_matrix(cache.powers)[rows], cache.sums[rows], z.shape[1]
    shifted = np.subtract(z, z.max(axis=1, keepdims=True), out=powers)
    expected = shifted[np.arange(len(sums)), cache.targets[rows]] * cache.at_target[rows]  # Σ_v q·z, at the targets
    if cache.elsewhere:
        expected += cache.elsewhere * np.vecdot(shifted, filled(V, 1.0, z.dtype))
    np.exp(powers, out=powers)
    np.vecdot(powers, filled(V, 1.0, z.dtype), out=sums)
    return np.log(sums) - expected


def cross_entropy_backward(dloss: Array | float, cache: CrossEntropyCache) -> tuple[Array]:
    """As the plain kernel: gradient (dlogits (..., V),); dloss is a scalar, 1.0 for the loss itself."""
    powers, sums, counted, targets, at_target, elsewhere, num_counted = cache
    dlogits = empty(powers.shape, powers.dtype)
    per_token = counted * (dloss / num_counted)  # (N,)
    of_powers, at_target = (per_token / sums)[:, None], per_token * at_target
    power_rows, dlogits_rows = as_matrix(powers), as_matrix(dlogits)
    for rows in row_blocks(*power_rows.shape):
        block = np.multiply(power_rows[rows], of_powers[rows], out=dlogits_rows[rows])
        if elsewhere:
            block -= (elsewhere * per_token[rows])[:, None]
        block[np.arange(len(block)), targets[rows]] -= at_target[rows]
    return (dlogits,)
