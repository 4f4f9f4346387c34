"""Softmax over rows, by one kernel each way."""

from __future__ import annotations

from npformer.backend.numpy.gradients import Into
from npformer.engine.cuda.device_runtime import DeviceRuntime, warps
from npformer.functional.arrays import namespace
from npformer.functional.softmax import SoftmaxCache, expect_fits
from npformer.typing import Array


def softmax_forward(gpu: DeviceRuntime, x: Array, visible: Array | None = None) -> tuple[Array, SoftmaxCache]:
    if visible is not None:
        expect_fits(visible, x)
        visible = gpu.contiguous(namespace(x).broadcast_to(visible, x.shape))
    y = gpu.empty(x.shape, x.dtype)
    _launch(gpu, "softmax.softmax_rows", y, gpu.contiguous(x), visible, y)
    return y, SoftmaxCache(y)


def softmax_backward(gpu: DeviceRuntime, dy: Array, cache: SoftmaxCache, into: Into = ()) -> Array:
    (y,) = cache
    dx = gpu.empty(y.shape, y.dtype)
    _launch(gpu, "softmax.softmax_rows_backward", y, gpu.contiguous(dy), y, dx)
    return dx


def _launch(gpu: DeviceRuntime, kernel: str, like: Array, *arrays: Array | None) -> None:
    if like.size:
        width = like.shape[-1]
        gpu.launch(kernel, like.dtype, like.size // width, warps(-(-width // 4)), *arrays, width)
