"""Pre-LN between two sub-layers: finish one residual sum and normalise it for the next sub-layer.

    total = x + Drop(f)      normed = LayerNorm(total)

In x + Drop(f(LN(x))) total is the residual stream, which continues unchanged. The norm after it
belongs to the next sub-layer. The two always occur together, so they are one operation with two
outputs.

Backward: total was used twice, by the stream and by the norm, so it receives both gradients, and hands them on
to both terms of the sum,

    dx = dtotal + (LayerNorm backward of dnormed)      df = dx·keep·s

The stream's own term dtotal passes unscaled from the top of the stack to the bottom.

Source: Xiong et al. 2020, arXiv:2002.04745, figure 1b.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.layer_norm import LayerNormCache, layer_norm_backward, layer_norm_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.residual import ResidualCache, residual_backward, residual_forward
from npformer.typing import Array


class AddNormCache(NamedTuple):
    residual: ResidualCache
    norm: LayerNormCache


def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None, bits: Bits = philox_bits
) -> tuple[tuple[Array, Array], AddNormCache]:
    """Sum x + Drop(f), both (..., C), and its norm by gamma, beta (C,). Returns (total, normed), both (..., C).

    Raises ShapeError if the shapes do not meet.
    """
    total, residual = residual_forward(x, f, draw, bits)  # 1. (..., C)
    normed, norm = layer_norm_forward(total, gamma, beta, eps)  # 2. (..., C)
    return (total, normed), AddNormCache(residual, norm)


def add_norm_backward(dy: tuple[Array, Array], cache: AddNormCache) -> tuple[Array, Array, Array, Array]:
    """Gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)) of add_norm_forward.

    dy is the pair (dtotal, dnormed), both (..., C).
    """
    dtotal, dnormed = dy
    through_norm, dgamma, dbeta = layer_norm_backward(dnormed, cache.norm)  # back through 2
    dx, df = residual_backward(dtotal + through_norm, cache.residual)  # back through 1; total was used twice
    return dx, df, dgamma, dbeta


ADD_NORM = Operation(add_norm_forward, add_norm_backward, parameters=2)
