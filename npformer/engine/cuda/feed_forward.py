"""The feed-forward layer: two products for x in each direction, with one kernel between them; ReLU and GELU alone.

With ReLU only the second product's operand is kept of the hidden layer. GELU also keeps its input, and draws the bits
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.engine.cuda.device_runtime import NOTHING_DROPPED, DeviceRuntime, Drawn, drawn, warps
from npformer.engine.cuda.linear import (
    add_bias_gradient,
    add_weight_gradient,
    affine,
    input_gradient,
    place,
    returned,
    rows_at_once,
)
from npformer.engine.cuda.sums import parts_of
from npformer.functional.arrays import as_rows
from npformer.functional.feed_forward import expect_activation
from npformer.functional.linear import expect_linear
from npformer.functional.philox import Draw
from npformer.typing import Array

#: The columns of a block of ReLU's backward, as in feed_forward.cu.
TILE = 256


class ActivationCache(NamedTuple):
    kept: Array  # (...)  GELU: x; ReLU: y, which is 0 exactly where dx is


class FeedForwardCache(NamedTuple):
    x: Array  # (N, C)
    w1: Array  # (C, F)
    w2: Array  # (F, C)
    h: Array | None  # (N, F)  before the activation; None for ReLU
    a: Array  # (N, F)  after activation and dropout
    drawn: Drawn  # which bits dropped entries of a
    shape: tuple[int, ...]  # of the input x


def feed_forward_forward(
    gpu: DeviceRuntime, x: Array, w1: Array, b1: Array, w2: Array, b2: Array, activation: str, draw: Draw | None
) -> tuple[Array, FeedForwardCache]:
    """As the plain kernel: x (..., C) by w1 (C, F), b1 (F,), the activation, w2 (F, C), b2 (C,). Returns y (..., C)."""
    expect_activation(activation)
    expect_linear(x, w1, b1)
    hidden = gpu.empty((*x.shape[:-1], w1.shape[1]), x.dtype)
    expect_linear(hidden, w2, b2)
    which, h = drawn(draw, hidden), as_rows(hidden)
    rows = as_rows(x)
    gpu.product(rows, w1, h)
    a = activate(gpu, activation, h, b1, which)
    y = gpu.empty((*x.shape[:-1], w2.shape[1]), x.dtype)
    affine(gpu, a, w2, b2, y)
    return y, FeedForwardCache(rows, w1, w2, h if activation == "gelu" else None, a, which, x.shape)


def feed_forward_backward(gpu: DeviceRuntime, dy: Array, cache: FeedForwardCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,))."""
    x, w1, w2, h, a, which, shape = cache
    parameters = w1.shape, w1.shape[1:], w2.shape, w2.shape[1:]
    expect_gradients(dy, (*shape[:-1], w2.shape[1]), into, *parameters)
    dy_rows = as_rows(gpu.contiguous(dy))
    db2 = add_bias_gradient(gpu, dy_rows, place(into, 1))
    dw2 = add_weight_gradient(gpu, a, dy_rows, place(into, 2))
    da = gpu.empty(a.shape, dy.dtype)
    gpu.product(dy_rows, w2.swapaxes(0, 1), da)
    dh, partials = backward_of_activation(
        gpu, da, a if h is None else h, h is not None, which, place(into, 3) is not None
    )
    db1 = None if partials is None else add_bias_gradient(gpu, partials, place(into, 3))
    dw1 = add_weight_gradient(gpu, x, dh, place(into, 4))
    dx = input_gradient(gpu, x, dh, w1, shape)
    return returned(dx, dw1, db1, dw2, db2)


def relu_forward(gpu: DeviceRuntime, x: Array) -> tuple[Array, ActivationCache]:
    y = activate(gpu, "relu", gpu.contiguous(x), None, NOTHING_DROPPED).reshape(x.shape)  # a number was made a row
    return y, ActivationCache(y)


def relu_backward(gpu: DeviceRuntime, dy: Array, cache: ActivationCache) -> tuple[Array]:
    return _gradient_alone(gpu, dy, cache, is_gelu=False)


def gelu_forward(gpu: DeviceRuntime, x: Array) -> tuple[Array, ActivationCache]:
    kept = gpu.contiguous(x)
    return activate(gpu, "gelu", kept, None, NOTHING_DROPPED).reshape(x.shape), ActivationCache(kept)


def gelu_backward(gpu: DeviceRuntime, dy: Array, cache: ActivationCache) -> tuple[Array]:
    return _gradient_alone(gpu, dy, cache, is_gelu=True)


def _gradient_alone(gpu: DeviceRuntime, dy: Array, cache: ActivationCache, is_gelu: bool) -> tuple[Array]:
    dx = gpu.empty(dy.shape, dy.dtype)
    backward_of_activation(gpu, gpu.contiguous(dy), cache.kept, is_gelu, NOTHING_DROPPED, False, dx)
    return (dx,)


def activate(gpu: DeviceRuntime, activation: str, h: Array, bias: Array | None, which: Drawn) -> Array:
    """Drop(act(h + bias)) (N, F).

    h is overwritten: with GELU it becomes h + bias, with ReLU it may become the result. Without a bias the activation
    is alone, and h (...) is unchanged.
    """
    alone = bias is None
    a = h if activation == "relu" and not alone else gpu.empty(h.shape, h.dtype)
    rows, width = _rows_and_width(h)
    at_once = rows_at_once(rows, width)
    gpu.launch(
        f"feed_forward.{activation}_rows", h.dtype, -(-rows // at_once), warps(width, 256),
        h, None if alone else gpu.contiguous(bias), a, rows, width, at_once, *which,
    )  # fmt: skip
    return a


def backward_of_activation(
    gpu: DeviceRuntime, da: Array, kept: Array, is_gelu: bool, which: Drawn, with_sums: bool, dh: Array | None = None
) -> tuple[Array, Array | None]:
    """(dh (N, F), and the sums of its columns, as P partial sums (P, F)).

    kept is h for GELU and a for ReLU. da is overwritten. An activation alone has its dh (...) given, and da is
    unchanged.
    """
    rows, width = _rows_and_width(da)
    dh = da if dh is None else dh
    partials = gpu.empty((parts_of(rows), width), da.dtype) if with_sums else None
    arrays = (da, kept, dh, partials, rows, width)
    parts = parts_of(rows)
    if is_gelu:
        gpu.launch("feed_forward.gelu_rows_backward", da.dtype, parts, warps(width, 512), *arrays, *which)
    else:
        blocks, threads = parts * -(-width // TILE), warps(min(width, TILE))
        gpu.launch("feed_forward.relu_rows_backward", da.dtype, blocks, threads, *arrays, which.scale)
    return dh, partials


def _rows_and_width(x: Array) -> tuple[int, int]:
    """x (..., C) as N rows of C numbers; a single number is one row of one."""
    width = x.shape[-1] if x.ndim else 1
    return x.size // max(width, 1), width
