"""One-dimensional convolution: each output is a linear map of the K tokens around its position.

    y_t = Σ_k x_(t + k − left) W_k + b          k = 0 … K−1; tokens beyond either end are 0 (zero padding)

Names in the code: W is weight, b is bias.

left counts the taps before t. With (K − 1)//2 it looks to both sides, and if K is even one token further to the right;
with K − 1 it is causal.

Backward. The convolution is a sum of K linear maps, each of a shifted copy of x, so its backward is theirs, shifted
back:

    dx_j = Σ_k dy_(j − k + left) W_kᵀ        dW_k = Σ_t x_(t + k − left)ᵀ dy_t        db = Σ_t dy_t

Source: LeCun et al. 1989, "Backpropagation applied to handwritten zip code recognition", Neural Computation 1; over
sequences, Gehring et al. 2017, arXiv:1705.03122.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import as_rows, device_of, expect_shape, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class Conv1DCache(NamedTuple):
    x: Array  # (B, T, C_in)  kept for dW
    weight: Array  # (K, C_in, C_out)  kept for dx
    left: int


def conv1d_forward(x: Array, weight: Array, bias: Array, causal: bool = False) -> tuple[Array, Conv1DCache]:
    """Convolve x (B, T, C_in) with weight (K, C_in, C_out) and add bias (C_out,). Returns y (B, T, C_out).

    causal: no output sees a later token. Raises ShapeError if the shapes do not meet.
    """
    expect_conv1d(x, weight, bias)
    kernel = weight.shape[0]
    left = kernel - 1 if causal else (kernel - 1) // 2
    xp = namespace(x)
    y = bias
    for k in range(kernel):
        y = y + xp.matmul(_shifted(x, k - left), weight[k, :, :])  # (B, T, C_out)
    return y, Conv1DCache(x, weight, left)


def conv1d_backward(dy: Array, cache: Conv1DCache) -> tuple[Array, Array, Array]:
    """Gradients (dx (B, T, C_in), dweight (K, C_in, C_out), dbias (C_out,)) of conv1d_forward, dy (B, T, C_out)."""
    x, weight, left = cache
    xp = namespace(dy)
    dx, dweight = xp.zeros_like(x), []
    for k in range(weight.shape[0]):
        dx = dx + _shifted(xp.matmul(dy, xp.matrix_transpose(weight[k, :, :])), left - k)
        dweight.append(xp.matmul(xp.matrix_transpose(as_rows(_shifted(x, k - left))), as_rows(dy)))
    return dx, xp.stack(dweight, axis=0), xp.sum(as_rows(dy), axis=0)


def _shifted(x: Array, by: int) -> Array:
    """y_t = x_(t + by), 0 where there is none. Shifting back by −by is its transpose."""
    if by == 0:
        return x
    xp = namespace(x)
    batch, length, width = x.shape
    steps = min(abs(by), length)
    zeros = xp.zeros((batch, steps, width), dtype=x.dtype, device=device_of(x))
    parts = [x[:, steps:, :], zeros] if by > 0 else [zeros, x[:, : length - steps, :]]
    return xp.concat(parts, axis=1)


def expect_conv1d(x: Array, weight: Array, bias: Array) -> None:
    """Raise ShapeError unless the shapes meet."""
    if weight.ndim != 3 or weight.shape[0] < 1:
        raise ShapeError(f"weight: expected (K, C_in, C_out) with K >= 1, got {tuple(weight.shape)}")
    if x.ndim != 3 or x.shape[2] != weight.shape[1]:
        raise ShapeError(f"x: expected (B, T, C_in={weight.shape[1]}), got {tuple(x.shape)}")
    expect_shape("bias", bias, "(C_out,)", weight.shape[2])


CONV1D = Operation(conv1d_forward, conv1d_backward, parameters=2)
