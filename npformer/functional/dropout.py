"""Dropout: each number is set to zero with probability rate, the others grow to keep the mean.

    keep_e = bits_e ≥ threshold      threshold = round(2¹⁶·rate)      s = 2¹⁶/(2¹⁶ − threshold)
    y = x·keep·s

bits_e are 16 random bits from the counter-based generator (``philox.py``), so P(keep) = 1/s
exactly and the mean of y is x.

Backward. The mask does not depend on x,

    dx = dy·keep·s

with the mask of the forward: drawing a new one, or forgetting s, is the classical bug.

Its fast kernels are the files dropout* of ``backend/numpy``, ``engine/numba`` and ``engine/cuda``, with x + Drop(f) in
one pass. Inside attention and feed-forward the kernels of these drop out, too.

Source: Srivastava et al. 2014, JMLR 15 (here with the scale applied while training).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.typing import Array


class DropoutCache(NamedTuple):
    keep: Array | None  # like x, boolean   kept, one byte per number; None: nothing was dropped
    scale: float


def dropout_forward(x: Array, draw: Draw | None, bits: Bits = philox_bits) -> tuple[Array, DropoutCache]:
    """Drop entries of x (...). Returns y (...).

    draw says which random numbers are used. None means inference: y is x. bits is the function that draws them.
    Raises ConfigError unless 0 ≤ draw.rate < 1.
    """
    if draw is None:
        return x, DropoutCache(None, 1.0)
    threshold, scale = dropout_threshold(draw.rate)
    keep = namespace(x).reshape(bits(draw, math.prod(x.shape), x) >= threshold, x.shape)
    cache = DropoutCache(keep, scale)
    return _apply(x, cache), cache


def dropout_backward(dy: Array, cache: DropoutCache) -> tuple[Array]:
    """Gradient (dx (...),) of dropout_forward."""
    return (_apply(dy, cache),)


def dropout_threshold(rate: float) -> tuple[int, float]:
    """(threshold, s): bits ≥ threshold are kept, and scaled by s. Raises ConfigError unless 0 ≤ rate < 1."""
    threshold = round(65536 * rate) if 0 <= rate < 1 else 65536
    if threshold >= 65536:
        raise ConfigError(f"dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got {rate}")
    return threshold, 65536 / (65536 - threshold)


def _apply(x: Array, cache: DropoutCache) -> Array:
    """x·keep·s, forward and backward alike."""
    if cache.keep is None:
        return x
    xp = namespace(x)
    return xp.where(cache.keep, x * cache.scale, xp.zeros_like(x))


DROPOUT = Operation(dropout_forward, dropout_backward)
