"""Adam in one pass over blocks that stay in the cache, without temporaries, and without denormals.

A parameter whose gradient stays 0 (the vector of a token that no longer occurs) has moments that
shrink by β in each update, until they are denormal numbers, below 1e-38 in float32. Denormals make a
kernel ten times slower, for thousands of updates. So K is added to each moment and subtracted
again. A moment that is large compared with K/2²⁴ is unchanged up to rounding; a small one becomes
exactly 0, and every value in between is a normal number. K is far
too small to matter: a moment below 1e-37 moves a parameter by less than 1e-28 of lr at eps = 1e-9.
(Adding K alone would move parameters that never had a gradient.)
"""

from __future__ import annotations

import numpy as np

from npformer.typing import Array

BLOCK = 1 << 14  # numbers: four arrays and two scratch arrays of 64 kB each

#: K by dtype: a power of two whose last mantissa bit is still worth a normal number.
FLUSH = {np.dtype(np.float32): 2.0**-100, np.dtype(np.float64): 2.0**-960}


def adam_update(
    p: Array, g: Array, m: Array, v: Array, lr: float, betas: tuple[float, float], eps: float, t: int, decay: float
) -> None:
    """Update p, m and v (n,) from g (n,) in place, as ``optim.Adam`` does; decay is lr·λ."""
    scratch = np.empty(min(BLOCK, p.shape[0]), dtype=p.dtype)
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        part = p[block]
        if decay:
            part *= 1 - decay
        part -= _change(g[block], m[block], v[block], scratch[: part.shape[0]], lr, betas, eps, t)


def _change(
    g: Array, m: Array, v: Array, scratch: Array, lr: float, betas: tuple[float, float], eps: float, t: int
) -> Array:
    """Update the moments m, v (n,) of a block. Returns, in scratch (n,), the amount to subtract from its parameters."""
    beta1, beta2 = betas
    flush = FLUSH[m.dtype]
    m *= beta1
    m += np.multiply(g, 1 - beta1, out=scratch)
    v *= beta2
    np.multiply(g, g, out=scratch)
    scratch *= 1 - beta2
    v += scratch
    for moment in (m, v):
        moment += flush
        moment -= flush
    np.multiply(v, 1 / (1 - beta2**t), out=scratch)
    np.sqrt(scratch, out=scratch)
    scratch += eps
    np.divide(m, scratch, out=scratch)
    scratch *= lr / (1 - beta1**t)
    return scratch
