"""Softmax over rows, by one kernel each way."""

from __future__ import annotations

from npformer.backend.cuda.device_runtime import DeviceRuntime, warps
from npformer.backend.numpy.gradients import Into
from npformer.functional.arrays import namespace
from npformer.functional.softmax import SoftmaxCache, expect_fits
from npformer.typing import Array


def softmax_forward(gpu: DeviceRuntime, x: Array, visible: Array | None = None) -> tuple[Array, SoftmaxCache]:
    if visible is not None:
        expect_fits(visible, x)
        visible = gpu.contiguous(namespace(x).broadcast_to(visible, x.shape))
    y = gpu.empty(x.shape, x.dtype)
    if x.size:
        width = x.shape[-1]
        threads = warps(-(-width // 4))
        gpu.launch("softmax.softmax_rows", x.dtype, x.size // width, threads, gpu.contiguous(x), visible, y, width)
    return y, SoftmaxCache(y)


def softmax_backward(gpu: DeviceRuntime, dy: Array, cache: SoftmaxCache, into: Into = ()) -> Array:
    (y,) = cache
    dx = gpu.empty(y.shape, y.dtype)
    if y.size:
        width = y.shape[-1]
        threads = warps(-(-width // 4))
        gpu.launch("softmax.softmax_rows_backward", y.dtype, y.size // width, threads, gpu.contiguous(dy), y, dx, width)
    return dx
