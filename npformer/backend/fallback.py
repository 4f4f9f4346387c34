"""Choosing between fast and plain kernels by dtype, and refusing mixed precisions in one call.

Fast kernels take only float32 and float64; the plain pair computes everything else. A gradient
check evaluates every forward at complex numbers (the complex step), which no fast kernel supports,
and a fast kernel would truncate results computed from integers. So each pair checks its inputs, which
takes a microsecond.

A forward refuses two precisions in one call with DTypeError, as PyTorch does: otherwise float64 inputs of a layer
with float32 parameters would be computed in float64, silently and slowly. It always refuses float16. An operation
without parameters computes in the precision of its input. A backward converts dy to the dtype of y, as PyTorch
does, since a loss may have been computed in another dtype. A check may replace all parameters of a layer by float64
ones: inputs and parameters must agree with each other, not with the dtype of the backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from inspect import signature
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.ops import Backward, Ops, Pair
from npformer.errors import DTypeError
from npformer.functional import OPERATIONS

#: A dtype's letter -> its precision (for complex numbers, that of the parts); None: npformer does not support it.
PRECISION = {"f": "float32", "F": "float32", "d": "float64", "D": "float64", "e": None, "g": None, "G": None}


class _Kept(NamedTuple):
    """A cache, with the backward of the forward that made it."""

    backward: Backward
    cache: Any
    dtype: Any  # of all inputs of a fast forward; of what a plain one returned


def with_fallback(fast: Ops, plain: Ops, arrays: Any = np.ndarray) -> Ops:
    """The table fast, with plain's pairs for inputs of type ``arrays`` that are not all float32 or all float64."""
    pairs = {name: (kernel, getattr(plain, name)) for name, kernel in vars(fast).items()}
    return Ops(**{name: f if f is p else _choosing(name, f, p, arrays) for name, (f, p) in pairs.items()})


def with_one_precision(plain: Ops, arrays: Any = np.ndarray) -> Ops:
    """The table plain, which refuses float16 and two precisions in one forward, and converts each dy to y's dtype."""
    return Ops(**{name: _refusing(name, pair, arrays) for name, pair in vars(plain).items()})


def _refusing(op: str, plain: Pair, arrays: Any) -> Pair:
    @wraps(plain.forward)
    def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
        first = ""
        for x in chain(inputs, options.values()):
            if isinstance(x, arrays) and x.dtype.char in PRECISION:
                precision = PRECISION[x.dtype.char]
                if precision is None or first not in ("", precision):
                    raise _no_precision(op, signature(plain.forward).bind(*inputs, **options).arguments, arrays)
                first = precision
        y, cache = plain.forward(*inputs, **options)
        return y, _Kept(plain.backward, cache, (y[0] if isinstance(y, tuple) else y).dtype)

    forward.__name__ = f"{op}_forward"  # the forward of a drawing operation is a partial, which has no name

    return Pair(forward, _converting(plain.backward, plain.backward, arrays))


def _no_precision(op: str, arguments: Mapping[str, Any], arrays: Any) -> DTypeError:
    """The error. It asks for the precision of the last array, which is a parameter if the operation has any."""
    dtypes = {name: x.dtype for name, x in arguments.items() if isinstance(x, arrays) and x.dtype.char in PRECISION}
    wanted = PRECISION[list(dtypes.values())[-1].char] or "float32"
    others = " and ".join(name for name, dtype in dtypes.items() if PRECISION[dtype.char] != wanted)
    got = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
    return DTypeError(
        f"{op}: expected numbers of one precision, float32 or float64, got {got}; "
        f'convert {others} with astype("{wanted}"), or make the model on a backend of the other dtype'
    )


def _choosing(op: str, fast: Pair, plain: Pair, arrays: Any) -> Pair:
    row, known = OPERATIONS[op], dict[Any, bool]()
    ids = (row.ids, row.inputs.index(row.ids)) if row.ids else ()  # their name and index among the inputs

    @wraps(fast.forward)
    def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
        dtype = None
        for where, x in chain(enumerate(inputs), options.items()):
            if isinstance(x, arrays) and where not in ids:
                if dtype is None:
                    dtype = x.dtype
                elif x.dtype != dtype:
                    return plain.forward(*inputs, **options)
        if dtype not in known:
            known[dtype] = dtype is not None and bool(dtype.isnative) and dtype.char in "fd"
        if not known[dtype]:
            return plain.forward(*inputs, **options)
        y, cache = fast.forward(*inputs, **options)
        return y, _Kept(fast.backward, cache, dtype)

    return Pair(forward, _converting(fast.backward, plain.backward, arrays))


def _converting(kernel: Backward, otherwise: Backward, arrays: Any) -> Backward:
    """The backward that converts dy to the dtype of y. otherwise takes the caches that no forward here has made."""

    @wraps(kernel)
    def backward(dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
        if type(cache) is not _Kept:
            return otherwise(dy, cache, into)
        dy = _as(dy, cache.dtype, arrays) if cache.dtype.kind == "f" else dy
        return cache.backward(dy, cache.cache, into)

    return backward


def _as(dy: Any, dtype: Any, arrays: Any) -> Any:
    """dy, or each of several, converted to this dtype: a loss may have been computed in another."""
    if isinstance(dy, tuple):
        return tuple(_as(part, dtype, arrays) for part in dy)
    return dy.astype(dtype) if isinstance(dy, arrays | np.number) and dy.dtype != dtype else dy
