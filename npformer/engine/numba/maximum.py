"""The maximum of a row in whole vectors, by comparing float32 numbers as integers.

Compilers vectorise a maximum of integers, but not one of floats, since the rules for NaN depend on the order.
Positive floats are ordered like their bits. Negative floats are ordered the other way round, so all their bits but
the sign are flipped. A positive NaN counts as the largest number.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from npformer.engine.numba.compiling import exact

SIGN, ALL_BUT_SIGN, LOWEST = np.int32(31), np.int32(0x7FFFFFFF), np.int32(-(2**31))


@exact
def _view_as_integers(x):
    return x.view(np.int32)


@exact
def _same(x):
    return x


def comparable(x):
    """x (…) as integers, whose rows ``largest`` takes. Make the view once: it costs more than the maximum of a row."""
    raise NotImplementedError("comparable is called from compiled code only")


@overload(comparable)
def _choose_comparable(x):
    return (lambda x: _view_as_integers(x)) if x.dtype == types.float32 else (lambda x: _same(x))


def largest(row):
    """The maximum of a row of ``comparable(x)``, in x's precision; −∞ if it is empty."""
    raise NotImplementedError("largest is called from compiled code only")


@overload(largest, inline="always")
def _choose_largest(row):
    if row.dtype != types.int32:
        return _largest_by_value
    return _largest_by_bits


def _largest_by_bits(row):
    top = LOWEST
    for j in range(row.shape[0]):
        top = max(top, row[j] ^ ((row[j] >> SIGN) & ALL_BUT_SIGN))
    return np.int32(top ^ ((top >> SIGN) & ALL_BUT_SIGN)).view(np.float32) if row.size else np.float32(-np.inf)


def _largest_by_value(row):
    top = -np.inf
    for j in range(row.shape[0]):
        top = max(top, row[j])
    return top
