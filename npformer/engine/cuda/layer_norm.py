"""LayerNorm, alone or after x + Drop(f): one kernel forward, one backward; dγ and dβ are summed from partial sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.engine.cuda.device_runtime import NOTHING_DROPPED, DeviceRuntime, Drawn, drawn, warps
from npformer.engine.cuda.linear import missing_bias
from npformer.engine.cuda.sums import ONE_PASS, PARTS, add_both, parts_of
from npformer.functional.arrays import as_rows, expect_shape
from npformer.functional.layer_norm import expect_gain
from npformer.functional.philox import Draw
from npformer.typing import Array

#: The most threads of a block: with 1024 threads each has at most 64 registers, and a row in registers needs more.
MOST = 512
#: A warp computes a row if it is of at most HELD bytes, the registers of its lanes, as in layer_norm.cu; so many warps
#: a block, and so many blocks at most in backward: two on each multiprocessor of a large GPU.
HELD, WARPS, BY_WARPS = 32 * 64, 8, PARTS // 2


class NormCache(NamedTuple):
    x_hat: Array  # (N, C)  kept: used twice in backward
    r: Array  # (N,)
    gamma: Array  # (C,)
    draw: Drawn  # which bits dropped entries of f


def _forward(
    gpu: DeviceRuntime, x: Array, f: Array | None, gamma: Array, beta: Array, eps: float, draw: Draw | None, total: bool
) -> tuple[Array | None, Array, NormCache]:
    """(sum or None, normed, cache)."""
    if f is not None:
        expect_shape("f", f, "the shape of x", *x.shape)
    expect_gain(x, gamma, beta)
    bias, dropped = missing_bias(gpu, x, f), NOTHING_DROPPED if f is None else drawn(draw, f)
    x_rows = as_rows(gpu.contiguous(x))
    rows, width = x_rows.shape
    y, x_hat, r = gpu.empty(x.shape, x.dtype), gpu.empty((rows, width), x.dtype), gpu.empty((rows,), x.dtype)
    summed = gpu.empty(x.shape, x.dtype) if total else None
    gamma = gpu.contiguous(gamma)
    blocks, threads = -(-rows // WARPS), 32 * WARPS
    if width > HELD // x.dtype.itemsize:  # a block, not a warp, computes a row
        blocks, threads = rows, warps(-(-width // 4), MOST)
    gpu.launch(
        "layer_norm.norm_rows", x.dtype, blocks, threads, x_rows, None if f is None else gpu.contiguous(f),
        bias, gamma, gpu.contiguous(beta), summed, y, x_hat, r, rows, width, eps, *dropped,
    )  # fmt: skip
    return summed, y, NormCache(x_hat, r, gamma, dropped)


def _backward(
    gpu: DeviceRuntime, dy: Array, dsum: Array | None, cache: NormCache, with_f: bool, into: Into
) -> tuple[Any, ...]:
    x_hat, r, gamma, dropped = cache
    rows, width = x_hat.shape
    expect_gradients(as_rows(dy), x_hat.shape, into, gamma.shape, gamma.shape)
    if dsum is not None:
        expect_gradients(dsum, dy.shape)
    dx = gpu.empty(dy.shape, dy.dtype)
    df = gpu.empty(dy.shape, dy.dtype) if with_f and dropped.threshold > 0 else None
    blocks, threads = max(1, min(BY_WARPS, -(-rows // WARPS))), 32 * WARPS
    if width > HELD // dy.dtype.itemsize:  # a block, not a warp, computes a row
        blocks, threads = parts_of(rows, ONE_PASS), warps(-(-width // 2), MOST)
    partials = gpu.empty((blocks, 2, width), dy.dtype)
    gpu.launch(
        "layer_norm.norm_rows_backward", dy.dtype, blocks, threads,
        gpu.contiguous(dy), x_hat, r, gamma, None if dsum is None else gpu.contiguous(dsum), dx, df, partials,
        rows, width, *dropped,
    )  # fmt: skip
    inputs = (dx, dx if df is None else df) if with_f else (dx,)  # nothing dropped: both terms have the same gradient
    return (*inputs, *add_both(gpu, partials, into))


def layer_norm_forward(
    gpu: DeviceRuntime, x: Array, gamma: Array, beta: Array, eps: float = 1e-5
) -> tuple[Array, NormCache]:
    return _forward(gpu, x, None, gamma, beta, eps, None, total=False)[1:]


def layer_norm_backward(gpu: DeviceRuntime, dy: Array, cache: NormCache, into: Into = ()) -> Any:
    gradients = _backward(gpu, dy, None, cache, False, into)
    return gradients if len(gradients) > 1 else gradients[0]


def post_norm_forward(
    gpu: DeviceRuntime, x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[Array, NormCache]:
    return _forward(gpu, x, f, gamma, beta, eps, draw, total=False)[1:]


def post_norm_backward(gpu: DeviceRuntime, dy: Array, cache: NormCache, into: Into = ()) -> Any:
    return _backward(gpu, dy, None, cache, True, into)


def add_norm_forward(
    gpu: DeviceRuntime, x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[tuple[Array, Array], NormCache]:
    total, y, cache = _forward(gpu, x, f, gamma, beta, eps, draw, total=True)
    return (total, y), cache


def add_norm_backward(gpu: DeviceRuntime, dy: tuple[Array, Array], cache: NormCache, into: Into = ()) -> Any:
    dsum, dnormed = dy
    return _backward(gpu, dnormed, dsum, cache, True, into)
