"""Post-LN: add the sub-layer's output to its input, then normalise the sum.

    total = x + Drop(f)      y = LayerNorm(total)

Names in the code: γ is gamma, β is beta.

Backward, the forward read bottom-up: first through the norm, then through the sum.

    dtotal, dγ, dβ = LayerNorm backward of dy
    dx = dtotal      df = dtotal·keep·s

The residual path also passes through the norm, so the gradient of a deep post-LN stack is rescaled at every layer.
docs/start-here.md tells what a first step of such a stack changes, and why its rate is warmed up.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; the warm-up, Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.layer_norm import LayerNormCache, layer_norm_backward, layer_norm_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.residual import ResidualCache, residual_backward, residual_forward
from npformer.typing import Array


class PostNormCache(NamedTuple):
    residual: ResidualCache
    norm: LayerNormCache


def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None, bits: Bits = philox_bits
) -> tuple[Array, PostNormCache]:
    """Normalise x + Drop(f), both (..., C), by gamma, beta (C,). Returns y (..., C).

    Raises ShapeError if the shapes do not meet.
    """
    total, residual = residual_forward(x, f, draw, bits)  # 1. (..., C)
    y, norm = layer_norm_forward(total, gamma, beta, eps)  # 2. (..., C)
    return y, PostNormCache(residual, norm)


def post_norm_backward(dy: Array, cache: PostNormCache) -> tuple[Array, Array, Array, Array]:
    """Gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)) of post_norm_forward."""
    dtotal, dgamma, dbeta = layer_norm_backward(dy, cache.norm)  # back through 2
    dx, df = residual_backward(dtotal, cache.residual)  # back through 1
    return dx, df, dgamma, dbeta


POST_NORM = Operation(post_norm_forward, post_norm_backward, parameters=2)
