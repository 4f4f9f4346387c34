"""Linear map: every token is multiplied by one matrix and shifted by one vector.

    y = x W + b            y_nj = Σ_i x_ni W_ij + b_j

Names in the code: W is weight, b is bias.

Backward. dX is ∂L/∂X for every X, and δX a small change of X; ``functional/README.md`` defines these symbols. From

    δL = Σ_nj dy_nj δy_nj      δy_nj = Σ_i (δx_ni W_ij + x_ni δW_ij) + δb_j

the factors of each change are collected:

    x_ni meets W_ij for every j          dx_ni = Σ_j dy_nj W_ij      dx = dy Wᵀ
    W_ij meets x_ni for every token n    dW_ij = Σ_n x_ni dy_nj      dW = xᵀ dy
    b_j is added to every token n        db_j  = Σ_n dy_nj           db = Σ_tokens dy

Each gradient is a sum over all uses of the value: that is the whole of backpropagation.

The same in matrices, for any operation: δy = J δx with the Jacobian J of its derivatives, so δL = dyᵀJ δx and
dx = Jᵀ dy. J is never built: from N tokens of width C to N tokens of width C it has (N·C)² entries; here the product
with Jᵀ is dy Wᵀ. One sweep from the loss down gives the derivatives of one number by all inputs.

Source: Rumelhart, Hinton & Williams 1986, Nature 323, eq. 6 and 7.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import as_rows, expect_shape, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class LinearCache(NamedTuple):
    x: Array  # (..., C_in)       kept for dW
    weight: Array  # (C_in, C_out)    kept for dx; the parameter itself, not a copy


def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, LinearCache]:
    """Map x (..., C_in) by weight (C_in, C_out) and bias (C_out,). Returns y (..., C_out).

    Raises ShapeError if weight is not a matrix or the widths do not meet.
    """
    expect_linear(x, weight, bias)
    xp = namespace(x)
    y = xp.matmul(as_rows(x), weight) + bias  # (N, C_out)
    return xp.reshape(y, (*x.shape[:-1], weight.shape[1])), LinearCache(x, weight)


def linear_backward(dy: Array, cache: LinearCache) -> tuple[Array, Array, Array]:
    """Gradients (dx (..., C_in), dweight (C_in, C_out), dbias (C_out,)) of linear_forward."""
    x, weight = cache
    xp = namespace(dy)
    dy_rows = as_rows(dy)  # (N, C_out)
    dx = xp.matmul(dy_rows, xp.matrix_transpose(weight))  # (N, C_in)
    dweight = xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)
    dbias = xp.sum(dy_rows, axis=0)
    return xp.reshape(dx, x.shape), dweight, dbias


def expect_linear(x: Array, weight: Array, bias: Array) -> None:
    """Raise ShapeError unless x (..., C_in), weight (C_in, C_out) and bias (C_out,) meet."""
    if weight.ndim != 2:
        raise ShapeError(f"weight: expected (C_in, C_out), got {tuple(weight.shape)}")
    if x.ndim < 1 or x.shape[-1] != weight.shape[0]:
        raise ShapeError(f"x: expected (..., C_in={weight.shape[0]}), got {tuple(x.shape)}")
    expect_shape("bias", bias, "(C_out,)", weight.shape[1])


LINEAR = Operation(linear_forward, linear_backward, parameters=2)
