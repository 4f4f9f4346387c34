"""erf inside a kernel: ``functional/erf.py``'s two pieces in float32, the standard library's in float64.

In float32 the first piece reaches to 0.48, where erf is more than 1/2; there it still agrees with erf to 3e-16. The
second piece is 1 − t. Where erf < 1/2, t > 1/2, so a rounding of t counts twice in units of erf's last place: begun
at 0.46875, the second piece was off by 3.8 of these units, and by 4.5 on processors without a fused multiply-add.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import overload

from npformer.backend.numba.compiling import exact
from npformer.backend.numba.exponential import exponential
from npformer.functional.erf import FAR_BOTTOM, FAR_TOP, NEAR_BOTTOM, NEAR_TOP

END_OF_NEAR, LAST = np.float32(0.48), np.float32(4.0)  # from 4 on erf is 1 to the last bit of a float32
TOP_1, BOTTOM_1, TOP_2, BOTTOM_2 = (
    tuple(np.float32(c) for c in coefficients) for coefficients in (NEAR_TOP, NEAR_BOTTOM, FAR_TOP, FAR_BOTTOM)
)
ONE = np.float32(1)


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


def error_function(x):
    """erf(x) inside a kernel, for the precision of x."""
    raise NotImplementedError("error_function is called from compiled code only")


@overload(error_function)
def _choose_error_function(x):
    if x == types.float32:
        return lambda x: _erf32(x)
    return lambda x: math.erf(x)
