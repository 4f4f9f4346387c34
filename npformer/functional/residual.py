"""Residual sum: the sub-layer's output, after dropout, is added to the sub-layer's input.

    y = x + Drop(f)

Backward: a sum passes its gradient unchanged to both terms,

    dx = dy      df = dy·keep·s

Without dx = dy the path that carries most of the gradient to the lower layers is cut.

A stack of k sums, each with its own sub-layer of Jacobian J_i, has the Jacobian (I + J_k) … (I + J_1). Multiplied out,
it is a sum over 2ᵏ paths: at each sub-layer a path passes through it or by it. The path that passes by all of them is
I, so one term of the gradient at the bottom is the gradient at the top, whatever the J_i are. A plain stack has only
the longest path, J_k … J_1, which vanishes if the J_i are small.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4 (dropout before the sum); the paths, Veit, Wilber & Belongie
2016, arXiv:1605.06431.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.arrays import expect_shape
from npformer.functional.dropout import DropoutCache, dropout_backward, dropout_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.typing import Array


class ResidualCache(NamedTuple):
    dropout: DropoutCache


def residual_forward(x: Array, f: Array, draw: Draw | None, bits: Bits = philox_bits) -> tuple[Array, ResidualCache]:
    """Add the sub-layer's output f (..., C), after dropout, to x (..., C). Returns y (..., C).

    Raises ShapeError if the two shapes differ.
    """
    expect_shape("f", f, "the shape of x", *x.shape)
    dropped, dropout = dropout_forward(f, draw, bits)  # 1.
    return x + dropped, ResidualCache(dropout)  # 2.


def residual_backward(dy: Array, cache: ResidualCache) -> tuple[Array, Array]:
    """Gradients (dx (..., C), df (..., C)) of residual_forward."""
    (df,) = dropout_backward(dy, cache.dropout)  # back through 1
    return dy, df  # back through 2


RESIDUAL = Operation(residual_forward, residual_backward)
