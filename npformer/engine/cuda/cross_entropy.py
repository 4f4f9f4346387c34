"""Cross-entropy: each token's loss, their mean, and one pass over the logits in backward, without a synchronisation."""

from __future__ import annotations

from typing import NamedTuple

from npformer.engine.cuda.device_runtime import DeviceRuntime, warps
from npformer.engine.cuda.embedding import token_ids
from npformer.functional.arrays import as_rows
from npformer.functional.cross_entropy import expect_loss
from npformer.typing import Array

#: The most threads per token, so that several tokens share a multiprocessor and read their logits again from its cache.
MOST = 512


class CrossEntropyCache(NamedTuple):
    logits: Array  # (N, V)  the caller's own where they are contiguous, not a copy
    targets: Array  # (N,)
    top: Array  # (N,)  the largest logit
    inverse: Array  # (N,)  1/Σ exp(z − top)
    num_counted: Array  # ()  N, at least 1
    ignored: tuple[bool, int]  # whether some target does not count, and which
    label_smoothing: float
    shape: tuple[int, ...]  # of the logits


def cross_entropy_forward(
    gpu: DeviceRuntime, logits: Array, targets: Array, ignore_index: int | None = 0, label_smoothing: float = 0.0
) -> tuple[Array, CrossEntropyCache]:
    expect_loss(logits, targets, label_smoothing)
    rows, ids = as_rows(gpu.contiguous(logits)), token_ids(gpu, targets)
    count, classes = rows.shape
    dtype, ignored = logits.dtype, (ignore_index is not None, ignore_index or 0)
    top, inverse, losses = (gpu.empty((count,), dtype) for _ in range(3))
    loss, num_counted = gpu.empty((), dtype), gpu.empty((), dtype)
    threads = warps(-(-classes // 4), MOST)
    if count:
        gpu.launch(
            "cross_entropy.token_losses", dtype, count, threads,
            rows, ids, top, inverse, losses, classes, *ignored, float(label_smoothing),
        )  # fmt: skip
    gpu.launch("cross_entropy.mean_loss", dtype, 1, warps(count), losses, ids, loss, num_counted, count, *ignored)
    return loss, CrossEntropyCache(
        rows, ids, top, inverse, num_counted, ignored, float(label_smoothing), tuple(logits.shape)
    )


def cross_entropy_backward(gpu: DeviceRuntime, dloss: Array | float, cache: CrossEntropyCache) -> tuple[Array]:
    """dloss is a Python number, or an array () on the GPU, which the kernel reads there."""
    rows, ids, top, inverse, num_counted, ignored, label_smoothing, shape = cache
    count, classes = rows.shape
    dlogits = gpu.empty(shape, rows.dtype)
    on_gpu = isinstance(dloss, type(rows)) or isinstance(rows, type(dloss))
    at = dloss.astype(rows.dtype, copy=False) if on_gpu else None  # type: ignore[union-attr]
    if count:
        gpu.launch(
            "cross_entropy.token_losses_backward", rows.dtype, count, warps(-(-classes // 4), MOST),
            rows, ids, top, inverse, num_counted, at, 0.0 if on_gpu else float(dloss), dlogits, classes, *ignored,
            label_smoothing,
        )  # fmt: skip
    return (dlogits,)
