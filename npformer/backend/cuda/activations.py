"""ReLU and GELU alone, by the kernels that run between the products of a feed-forward layer."""

from __future__ import annotations

from typing import NamedTuple

from npformer.backend.cuda.device_runtime import NOTHING_DROPPED, DeviceRuntime, warps
from npformer.backend.cuda.linear import rows_at_once
from npformer.backend.cuda.sums import parts_of
from npformer.backend.numpy.gradients import Into
from npformer.typing import Array


class ActivationCache(NamedTuple):
    kept: Array  # (...)  GELU: x; ReLU: y, which is 0 exactly where dx is


def relu_forward(gpu: DeviceRuntime, x: Array) -> tuple[Array, ActivationCache]:
    return _activate(gpu, "relu", x)


def relu_backward(gpu: DeviceRuntime, dy: Array, cache: ActivationCache, into: Into = ()) -> Array:
    return _gradient(gpu, "relu", dy, cache)


def gelu_forward(gpu: DeviceRuntime, x: Array) -> tuple[Array, ActivationCache]:
    return _activate(gpu, "gelu", x)


def gelu_backward(gpu: DeviceRuntime, dy: Array, cache: ActivationCache, into: Into = ()) -> Array:
    return _gradient(gpu, "gelu", dy, cache)


def _activate(gpu: DeviceRuntime, name: str, x: Array) -> tuple[Array, ActivationCache]:
    """The activation name, "relu" or "gelu", of x (...). Returns y (...)."""
    y = gpu.empty(x.shape, x.dtype)
    x = gpu.contiguous(x)
    rows, width = rows_and_width(x)
    at_once = rows_at_once(rows, width)
    gpu.launch(
        f"feed_forward.{name}_rows", x.dtype, -(-rows // at_once), warps(width, 256),
        x, None, y, None, rows, width, at_once, *NOTHING_DROPPED,
    )  # fmt: skip
    return y, ActivationCache(x if name == "gelu" else y)


def _gradient(gpu: DeviceRuntime, name: str, dy: Array, cache: ActivationCache) -> Array:
    """Gradient dx (...) of the activation name."""
    dx = gpu.empty(dy.shape, dy.dtype)
    rows, width = rows_and_width(dy)
    kept = (cache.kept,) if name == "gelu" else (cache.kept, None)
    gpu.launch(
        f"feed_forward.{name}_rows_backward", dy.dtype, parts_of(rows), warps(width, 512),
        gpu.contiguous(dy), *kept, dx, None, None, rows, width, *NOTHING_DROPPED,
    )  # fmt: skip
    return dx


def rows_and_width(x: Array) -> tuple[int, int]:
    """x (..., C) as N rows of C numbers; a single number is one row of one."""
    width = x.shape[-1] if x.ndim else 1
    return x.size // max(width, 1), width
