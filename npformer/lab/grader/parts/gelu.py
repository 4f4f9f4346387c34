"""GELU, the exact form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.typing import Array


def gelu_forward(x: Array) -> tuple[Array, Any]:
    """x (...). Returns y (...) and a cache."""
    erf = np.vectorize(math.erf, otypes=[float])  # NumPy has none
    phi_below = 0.5 * (1.0 + erf(x / math.sqrt(2.0)))  # 1. the probability that a normal variable is below x
    return x * phi_below, (x, phi_below)  # 2.


def gelu_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    x, phi_below = cache
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)  # the derivative of phi_below
    return dy * (phi_below + x * density)
