"""exp and erf that use whole vectors, in float32; in float64 the standard library's own.

    exp(x) = 2ⁿ·exp(r)      n = round(x/ln 2)      r = x − n·ln 2, |r| ≤ ln 2/2

exp(r) is its Taylor polynomial of degree 7, whose remainder is below 1e-8 there; 2ⁿ is put together
from its bits. Within 2 units in the last place of float32 on [−87, 88]; below it is 0, above it
is the value at 88.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import overload

from npformer.backend.numba.compiling import exact

LOG2_E = np.float32(1 / math.log(2))
LN2_HIGH = np.float32(0.693359375)  # few bits, so that n·LN2_HIGH is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
LOWEST, HIGHEST = np.float32(-87.0), np.float32(88.0)
T7, T6, T5, T4, T3 = (np.float32(1 / math.factorial(n)) for n in (7, 6, 5, 4, 3))
HALF, ONE, ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
EXPONENT_BIAS, MANTISSA_BITS = np.int32(127), np.int32(23)


@exact
def _exp32(x):
    within = min(max(x, LOWEST), HIGHEST)
    n = np.floor(within * LOG2_E + HALF)
    r = within - n * LN2_HIGH - n * LN2_LOW
    value = ((((((T7 * r + T6) * r + T5) * r + T4) * r + T3) * r + HALF) * r + ONE) * r + ONE
    power = np.int32((np.int32(n) + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float32)
    return ZERO if x < LOWEST else value * power


def exponential(x):
    """exp(x) inside a kernel, for the precision of x."""
    raise NotImplementedError("exponential is called from compiled code only")


@overload(exponential)
def _choose_exponential(x):  # Numba compares the two signatures, annotations too
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: math.exp(x)
