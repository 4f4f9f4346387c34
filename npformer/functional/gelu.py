"""GELU, the exact form: each number is weighted by the probability that a standard normal variable is below it.

    y = x·Φ(x)      Φ(x) = (1 + erf(x/√2))/2      φ(x) = Φ'(x) = exp(−x²/2)/√(2π)

Backward, by the product rule:

    dx = dy·(Φ(x) + x·φ(x))

The popular tanh approximation is another function with another derivative. A backward of one for the forward
of the other gives gradients that are wrong by up to 9e-4 of dy.

Alone its fast kernel is ``backend/numpy/gelu.py``, with Numba too, and ``engine/cuda/feed_forward.py`` on a GPU; inside
a feed-forward it is in the files feed_forward* of ``backend/numpy``, ``engine/numba`` and ``engine/cuda``.

Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.functional.arrays import namespace
from npformer.functional.erf import erf
from npformer.functional.operation import Operation
from npformer.typing import Array


class GeluCache(NamedTuple):
    x: Array  # (...)  kept
    phi_below: Array  # (...)  Φ(x), kept: erf is expensive; φ(x) is one exp and is recomputed


def gelu_forward(x: Array) -> tuple[Array, GeluCache]:
    """Weight each number of x (...) by Φ(x). Returns y (...)."""
    phi_below = 0.5 * (1 + erf(x * math.sqrt(0.5)))  # 1. Φ(x)
    return x * phi_below, GeluCache(x, phi_below)  # 2.


def gelu_backward(dy: Array, cache: GeluCache) -> tuple[Array]:
    """Gradient (dx (...),) of gelu_forward."""
    x, phi_below = cache
    density = namespace(x).exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))  # φ(x)
    return (dy * (phi_below + x * density),)


GELU = Operation(gelu_forward, gelu_backward)
