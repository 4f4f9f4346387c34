"""ReLU: a positive number passes, any other becomes 0.

    y = x  where x > 0,  else 0

Backward: y changes with x where the gate was open, and does not change where it was closed,

    dx = dy  where x > 0,  else 0

The forward's input sets the gate, never the sign of dy. At x = 0 there is a kink and no
derivative; 0 is used there.

Source: Nair & Hinton 2010, "Rectified linear units improve restricted Boltzmann machines", ICML.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.arrays import namespace, real_part
from npformer.functional.operation import Operation
from npformer.typing import Array


class ReluCache(NamedTuple):
    is_open: Array  # like x, boolean   kept instead of x: one byte per number


def relu_forward(x: Array) -> tuple[Array, ReluCache]:
    """Let the positive numbers of x (...) pass. Returns y (...)."""
    xp = namespace(x)
    is_open = ~(real_part(x) <= 0)  # not x > 0: a NaN passes and stays visible
    return xp.where(is_open, x, xp.zeros_like(x)), ReluCache(is_open)


def relu_backward(dy: Array, cache: ReluCache) -> tuple[Array]:
    """Gradient (dx (...),) of relu_forward."""
    xp = namespace(dy)
    return (xp.where(cache.is_open, dy, xp.zeros_like(dy)),)


RELU = Operation(relu_forward, relu_backward)
