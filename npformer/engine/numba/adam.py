"""Adam's formula in one pass over the arena: seven streams of memory, each touched once.

If a gradient stays 0, its moments decay into denormal numbers, which a processor handles ten times more slowly.
A moment below 1e-30 has no effect any more, so the kernel sets it to 0.
"""

from __future__ import annotations

import math

from npformer.engine.numba.arguments import OutVector, Vector
from npformer.engine.numba.compiling import kernel
from npformer.typing import Array

NEGLIGIBLE = 1e-30


def adam_update(
    p: Array, g: Array, m: Array, v: Array, lr: float, betas: tuple[float, float], eps: float, t: int, decay: float
) -> None:
    """One update of flat arrays (n,), in place."""
    beta1, beta2 = betas
    rate = lr / (1 - beta1**t)
    root = math.sqrt(1 / (1 - beta2**t))
    update(p, g, m, v, rate, beta1, beta2, eps, root, 1 - decay)


@kernel(calls="adam")
def update(
    p: OutVector, g: Vector, m: OutVector, v: OutVector, rate: float, beta1: float, beta2: float, eps: float,
    root: float, shrink: float,
):  # fmt: skip
    """m, v and p after one step; root is √(1/(1 − β₂ᵗ)), rate holds m's correction."""
    dtype = p.dtype.type
    keep1, new1, keep2, new2 = dtype(beta1), dtype(1 - beta1), dtype(beta2), dtype(1 - beta2)
    step, small, correction, factor = dtype(rate), dtype(eps), dtype(root), dtype(shrink)
    negligible, zero = dtype(NEGLIGIBLE), dtype(0)
    for i in range(p.size):
        mean = keep1 * m[i] + new1 * g[i]
        square = keep2 * v[i] + new2 * (g[i] * g[i])
        mean = zero if abs(mean) < negligible else mean
        square = zero if square < negligible else square
        m[i], v[i] = mean, square
        p[i] = p[i] * factor - step * mean / (dtype(math.sqrt(square)) * correction + small)
