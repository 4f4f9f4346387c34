"""exp and erf in whole vectors for float32; float64 uses the standard library.

    exp(x) = 2ⁿ·exp(r)      n = round(x/ln 2)      r = x − n·ln 2, |r| ≤ ln 2/2

exp(r) is its Taylor polynomial of degree 7, whose remainder is below 1e-8 there; 2ⁿ is put together
from its bits. Within 2 units in the last place of float32 on [−87, 88]; below it is 0, above it
is the value at 88.

erf is made of ``functional/erf.py``'s two pieces. The first reaches to 0.48, where erf is more than 1/2; there it still
agrees with erf to 3e-16. The second piece is 1 − t. Where erf < 1/2, t > 1/2, so a rounding of t counts twice in units
of erf's last place: begun at 0.46875, the second piece was off by 3.8 of these units, and by 4.5 on processors without
a fused multiply-add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from npformer.engine.numba.compiling import exact
from npformer.functional.erf import FAR_BOTTOM, FAR_TOP, NEAR_BOTTOM, NEAR_TOP

LOG2_E = np.float32(1 / math.log(2))
LN2_HIGH = np.float32(0.693359375)  # few bits, so that n·LN2_HIGH is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
LOWEST, HIGHEST = np.float32(-87.0), np.float32(88.0)
T7, T6, T5, T4, T3 = (np.float32(1 / math.factorial(n)) for n in (7, 6, 5, 4, 3))
HALF, ONE, ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
EXPONENT_BIAS, MANTISSA_BITS = np.int32(127), np.int32(23)

END_OF_NEAR, LAST = np.float32(0.48), np.float32(4.0)  # from 4 on erf is 1 to the last bit of a float32
TOP_1, BOTTOM_1, TOP_2, BOTTOM_2 = (
    tuple(np.float32(c) for c in coefficients) for coefficients in (NEAR_TOP, NEAR_BOTTOM, FAR_TOP, FAR_BOTTOM)
)


@exact
def _exp32(x):
    within = min(max(x, LOWEST), HIGHEST)
    n = np.floor(within * LOG2_E + HALF)
    r = within - n * LN2_HIGH - n * LN2_LOW
    value = ((((((T7 * r + T6) * r + T5) * r + T4) * r + T3) * r + HALF) * r + ONE) * r + ONE
    power = np.int32((np.int32(n) + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float32)
    return ZERO if x < LOWEST else value * power


@exact
def _polynomial(x, coefficients):
    value = coefficients[0]
    for i in range(1, len(coefficients)):
        value = value * x + coefficients[i]
    return value


@exact
def _erf32(x):
    size = min(abs(x), LAST)
    square = size * size
    near = size * _polynomial(square, TOP_1) / _polynomial(square, BOTTOM_1)
    far = ONE - exponential(-square) * _polynomial(size, TOP_2) / _polynomial(size, BOTTOM_2)
    value = near if size <= END_OF_NEAR else far
    return -value if x < 0 else value


def _by_precision(name: str, single: Any, double: Any) -> Callable[[Any], Any]:
    """A function for kernels that calls single for a float32 and double for a float64."""

    def function(x):
        raise NotImplementedError(f"{name} is called from compiled code only")

    def choose(x):
        return (lambda x: single(x)) if x == types.float32 else (lambda x: double(x))

    overload(function)(choose)
    return function


exponential, error_function = _by_precision("exponential", _exp32, math.exp), _by_precision("erf", _erf32, math.erf)
