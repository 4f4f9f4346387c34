"""The linear map: cuBLAS computes the products, adds dW directly to the gradient array, and, where it can, the bias.

A norm that comes next adds the bias itself (``Affine``).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.engine.cuda.device_runtime import DeviceRuntime, warps
from npformer.engine.cuda.sums import PARTS, column_sums, overlap
from npformer.functional.arrays import as_rows
from npformer.functional.linear import expect_linear
from npformer.typing import Array

#: In place of a gradient array: the gradient is returned as a new array.
NEW: Final = object()


class LinearCache(NamedTuple):
    x: Array  # (N, C_in)
    weight: Array  # (C_in, C_out)  the parameter itself
    shape: tuple[int, ...]  # of the input x


def linear_forward(gpu: DeviceRuntime, x: Array, weight: Array, bias: Array) -> tuple[Array, LinearCache]:
    """As the plain kernel: x (..., C_in) by weight (C_in, C_out) and bias (C_out,) to y (..., C_out)."""
    expect_linear(x, weight, bias)
    rows = as_rows(x)
    y = gpu.empty((*x.shape[:-1], weight.shape[1]), x.dtype)
    affine(gpu, rows, weight, bias, y)
    return y, LinearCache(rows, weight, x.shape)


def linear_backward(gpu: DeviceRuntime, dy: Array, cache: LinearCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C_in), dweight (C_in, C_out), dbias (C_out,))."""
    x, weight, shape = cache
    expect_gradients(dy, (*shape[:-1], weight.shape[1]), into, weight.shape, weight.shape[1:])
    dy_rows = as_rows(gpu.contiguous(dy))
    bias_gradient = add_bias_gradient(gpu, dy_rows, place(into, 1))
    weight_gradient = add_weight_gradient(gpu, x, dy_rows, place(into, 2))
    dx = input_gradient(gpu, x, dy_rows, weight, shape)
    return returned(dx, weight_gradient, bias_gradient)


def input_gradient(gpu: DeviceRuntime, x: Array, dy: Array, weight: Array, shape: tuple[int, ...]) -> Array:
    """dy (N, C_out) Wᵀ, the gradient (..., C_in) of x (N, C_in); added to another one of x if that is open."""
    stream = None if gpu.later is None else gpu.later.gradient_of(x)
    dx = gpu.empty(shape, dy.dtype) if stream is None else stream
    gpu.product(dy, weight.swapaxes(0, 1), as_rows(dx), add=stream is not None)
    return dx


class Affine(NamedTuple):
    """y = x W + b, which waits for the next operation: a norm of x + Drop(y) adds b by itself, others need it in y.

    A product with a bias takes longer than one without, and the norm reads each y_ij anyway: so it adds b_j there, the
    same sum of the same numbers. Backward is as before: the norm returns the gradient of y, whoever added b.
    """

    x: Array  # (N, C_in)
    weight: Array  # (C_in, C_out)
    bias: Array  # (C_out,)
    y: Array  # (..., C_out)

    def make(self, gpu: DeviceRuntime) -> None:
        """With b, by one kernel if there is one."""
        x, weight, bias, y = *self[:3], as_rows(self.y)
        if gpu.biased_product(x, weight, bias, y):
            return
        gpu.product(x, weight, y)
        rows, width = y.shape
        at_once = rows_at_once(rows, width)
        blocks = -(-rows // at_once)
        gpu.launch("linear.add_bias", y.dtype, blocks, warps(width, 256), y, gpu.contiguous(bias), rows, width, at_once)


def affine(gpu: DeviceRuntime, x: Array, weight: Array, bias: Array, y: Array) -> None:
    """y (..., C_out) = x (N, C_in) weight (C_in, C_out) + bias (C_out,), where y may wait as ``Affine`` says."""
    if gpu.later is None or not gpu.later.known:
        return Affine(x, weight, bias, y).make(gpu)
    gpu.later.settle()
    gpu.later.waiting = Affine(x, weight, bias, y)


def missing_bias(gpu: DeviceRuntime, x: Array, f: Array | None) -> Array | None:
    """The bias (C,) that whoever computes x + Drop(f) is to add to f (..., C), which waited. None: f is whole."""
    if gpu.later is None or gpu.later.waiting is None:
        return None
    rows, weight, bias, y = gpu.later.waiting
    if f is not y or overlap(gpu, x, y):
        gpu.later.settle()
        return None
    gpu.later.waiting = None
    gpu.product(rows, weight, as_rows(y))
    return gpu.contiguous(bias)


def rows_at_once(rows: int, width: int) -> int:
    """The rows per block: about 2,048 numbers, fewer if there would be too few blocks for a large GPU."""
    return max(1, min(2048 // max(width, 1), rows // PARTS))


def place(into: Into, from_end: int) -> Any:
    """Where to add the gradient of the from_end-th input from the end (1: the last): an array, NEW, None (frozen)."""
    return into[-from_end] if len(into) >= from_end else NEW


def add_weight_gradient(gpu: DeviceRuntime, x: Array, dy: Array, where: Any) -> Array | None:
    """xᵀ dy (C_in, C_out), of x (N, C_in) and dy (N, C_out), added to where; returned if that is NEW."""
    if where is None:
        return None
    new = where is NEW
    total = gpu.empty((x.shape[1], dy.shape[1]), dy.dtype) if new else where
    gpu.product(x.swapaxes(0, 1), dy, total, add=not new)
    return total if new else None


def add_bias_gradient(gpu: DeviceRuntime, rows: Array, where: Any) -> Array | None:
    """Σ of rows (N, C_out), of dy or of partial sums of it, added to where; returned if that is NEW."""
    if where is None:
        return None
    if where is NEW:
        return column_sums(gpu, rows)
    column_sums(gpu, rows, where)
    return None


def returned(dx: Array, *parameters: Array | None) -> Any:
    """The result of a backward: dx, followed by the gradients that were not added to an array."""
    new = [gradient for gradient in parameters if gradient is not None]
    return (dx, *new) if new else dx
