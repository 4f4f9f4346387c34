"""Fast kernels take the real numbers they were made for; for all others the plain pair computes.

A gradient check asks every forward for its value at complex numbers (the complex step), which no
fast kernel has a use for; whole numbers would be cut off where they meet fractions, and two precisions
at once have no kernel. So a pair looks at what it is given, which costs a microsecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.ops import Ops, Pair

#: Where token ids, or what is true of tokens, stand among an operation's inputs: no numbers to compute with.
IDS: dict[str, tuple[int, str]] = {
    "embedding": (0, "tokens"),
    "batch_norm": (3, "counts"),
    "cross_entropy": (1, "targets"),
    "gru": (6, "visible"),
}


class _FastCache(NamedTuple):
    """Marks a cache that a fast forward made."""

    cache: Any
    dtype: Any  # of everything it was given


def takes_real(letter: str) -> bool:
    """Whether fast kernels take numbers of this dtype, given by its letter: float32 and float64."""
    return letter in "fd"


def with_fallback(fast: Ops, plain: Ops, arrays: Any = np.ndarray) -> Ops:
    """fast, with plain's pairs for ``arrays`` that are not all of one dtype which fast kernels take."""
    pairs = {}
    for name in (field.name for field in fields(Ops)):
        own, other = getattr(fast, name), getattr(plain, name)
        pairs[name] = own if own is other else _choosing(own, other, arrays, *IDS.get(name, (-1, "")))
    return Ops(**pairs)


def _choosing(fast: Pair, plain: Pair, arrays: Any, ids: int, ids_name: str) -> Pair:
    known: dict[Any, bool] = {}

    def is_taken(dtype: Any) -> bool:
        if dtype not in known:
            known[dtype] = bool(dtype.isnative) and takes_real(dtype.char)
        return known[dtype]

    def one_dtype(inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        """That of all numbers, if fast kernels take it; else None."""
        numbers = [x.dtype for i, x in enumerate(inputs) if isinstance(x, arrays) and i != ids]
        if options:
            numbers += [x.dtype for name, x in options.items() if isinstance(x, arrays) and name != ids_name]
        same = numbers and all(dtype == numbers[0] for dtype in numbers)
        return numbers[0] if same and is_taken(numbers[0]) else None

    @wraps(fast.forward)
    def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
        dtype = one_dtype(inputs, options)
        if dtype is None:
            return plain.forward(*inputs, **options)
        y, cache = fast.forward(*inputs, **options)
        return y, _FastCache(cache, dtype)

    @wraps(fast.backward)
    def backward(dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
        if type(cache) is not _FastCache:
            return plain.backward(dy, cache, into)
        return fast.backward(_as(dy, cache.dtype, arrays), cache.cache, into)

    return Pair(forward, backward)


def _as(dy: Any, dtype: Any, arrays: Any) -> Any:
    """dy, or each of several, in this dtype: a loss may have been computed in another."""
    if isinstance(dy, tuple):
        return tuple(_as(part, dtype, arrays) for part in dy)
    return dy.astype(dtype) if isinstance(dy, arrays) and dy.dtype != dtype else dy
