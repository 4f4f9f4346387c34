"""Array helpers that every pair uses: the array's library, its real part, its rows, checks of shape and dtype.

The pairs use only the array API standard, so the same code runs on NumPy, CuPy and
array-api-strict. Gradients are checked by running the forward on complex numbers (the
complex step). Hence two rules: an ordering (a maximum, a comparison) uses
``real_part(x)``, and no function here may drop an imaginary part.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from npformer.errors import DTypeError, ShapeError
from npformer.typing import Array, Namespace

__all__ = ["as_rows", "device_of", "expect_integers", "expect_shape", "namespace", "real_part", "use_namespace"]

_namespace_by_type: dict[type, Namespace] = {}


def namespace(x: Array) -> Namespace:
    """The array-API module of x, cached by type, since the look-up itself takes 5 µs."""
    kind = type(x)
    xp = _namespace_by_type.get(kind)
    if xp is None:
        # NumPy follows the standard from 2.1 on; its wrapper would import numpy.testing and numpy.f2py, 12 MB
        standard = isinstance(x, np.ndarray | np.generic) and hasattr(np, "cumulative_sum")
        xp = _namespace_by_type[kind] = np if standard else _other_namespace(x)
    return xp


def use_namespace(kind: type, xp: Namespace) -> None:
    """Let xp be the array-API module of arrays of a type."""
    _namespace_by_type[kind] = xp


def _other_namespace(x: Array) -> Namespace:
    from array_api_compat import array_namespace  # here, since NumPy's arrays need nothing of it

    return array_namespace(x)


def device_of(x: Array) -> Any:
    """Where x lives, in the words of its own library."""
    if isinstance(x, np.ndarray | np.generic):
        return "cpu"
    from array_api_compat import device

    return device(x)


@cache
def _is_complex(xp: Namespace, dtype: Any) -> bool:
    return bool(xp.isdtype(dtype, "complex floating"))


def real_part(x: Array) -> Array:
    """x itself if it is real, its real part if it is complex. Comparisons use this."""
    xp = namespace(x)
    return xp.real(x) if _is_complex(xp, x.dtype) else x


def as_rows(x: Array) -> Array:
    """x (..., C) as a matrix (N, C), one row per token, so that a batch takes one large matrix product."""
    if x.ndim == 2:
        return x
    size = 1
    for length in x.shape[:-1]:
        size *= length
    return namespace(x).reshape(x, (size, x.shape[-1]))


def expect_shape(name: str, x: Array, letters: str, *sizes: int) -> None:
    """Raise ShapeError unless x.shape == sizes. letters is that shape in the letters of the glossary."""
    if x.shape != sizes:
        raise ShapeError(f"{name}: expected {letters} = {sizes}, got {tuple(x.shape)}")


def expect_integers(name: str, x: Array) -> None:
    """Raise DTypeError unless x holds integers, as token ids do."""
    if not namespace(x).isdtype(x.dtype, "integral"):
        raise DTypeError(f"{name}: expected integers (token ids), got {x.dtype}; convert with astype first")
