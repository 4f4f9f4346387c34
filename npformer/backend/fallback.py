"""Fast bodies take the real numbers they were made for; for all others the plain pair computes.

A gradient check asks every forward for its value at complex numbers (the complex step), which no
fast body has a use for. So a pair looks at what it is given, which costs half a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.ops import Ops, Pair

#: (letter of a dtype) -> whether fast bodies take it.
Takes = Callable[[str], bool]


class _PlainCache(NamedTuple):
    """Marks a cache that the plain forward made."""

    cache: Any


def takes_real(letter: str) -> bool:
    """Everything but complex numbers."""
    return letter not in "FDG"


def with_fallback(fast: Ops, plain: Ops, takes: Takes = takes_real) -> Ops:
    """fast, with plain's pairs for arrays whose dtype ``takes`` refuses."""
    names = [field.name for field in fields(Ops)]
    pairs = {name: (getattr(fast, name), getattr(plain, name)) for name in names}
    return Ops(**{name: own if own is other else _choosing(own, other, takes) for name, (own, other) in pairs.items()})


def _choosing(fast: Pair, plain: Pair, takes: Takes) -> Pair:
    known: dict[str, bool] = {}

    def is_taken(x: Any) -> bool:
        letter = x.dtype.char
        if letter not in known:
            known[letter] = takes(letter)
        return known[letter]

    @wraps(fast.forward)
    def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
        for x in inputs:
            if type(x) is np.ndarray and not is_taken(x):
                y, cache = plain.forward(*inputs, **options)
                return y, _PlainCache(cache)
        return fast.forward(*inputs, **options)

    @wraps(fast.backward)
    def backward(dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
        if type(cache) is _PlainCache:
            return plain.backward(dy, cache.cache, into)
        return fast.backward(dy, cache, into)

    return Pair(forward, backward)
