"""The linear map into reused memory; the bias gradient is a product with ones.

The products are the same as in the plain kernel. This kernel avoids new arrays (page faults), the
temporary of ``x W + b``, and ``np.sum`` over rows.
"""

from __future__ import annotations

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.workspace import empty
from npformer.functional.linear import LinearCache, expect_linear
from npformer.typing import Array


def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, LinearCache]:
    """As the plain kernel: x (..., C_in) by weight (C_in, C_out) and bias (C_out,) to y (..., C_out)."""
    expect_linear(x, weight, bias)
    y: Array = empty((*x.shape[:-1], weight.shape[1]), x.dtype)
    np.matmul(as_matrix(x), weight, out=as_matrix(y))
    y += bias
    return y, LinearCache(x, weight)


def linear_backward(dy: Array, cache: LinearCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dx (..., C_in), dweight (C_in, C_out), dbias (C_out,))."""
    x, weight = cache
    expect_gradients(dy, (*x.shape[:-1], weight.shape[1]))
    dx, dy_rows = empty(x.shape, x.dtype), as_matrix(dy)
    np.matmul(dy_rows, weight.T, out=as_matrix(dx))
    dweight = np.matmul(as_matrix(x).T, dy_rows, out=empty(weight.shape, x.dtype))
    return dx, dweight, column_sums(dy_rows)
