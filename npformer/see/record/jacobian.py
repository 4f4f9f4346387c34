"""The terms of a gradient: backward is linear in dy, so each entry of a gradient is a sum of one term for each entry
of dy.

    dx_i = Σ_o dy_o·J_oi        the term of dy_o is what backward returns at i if all other entries of dy are 0

Backward itself computes the terms, one entry of dy at a time, so no formula is written a second time. Their sum is the
gradient of a single run up to the rounding of that sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npformer.backend import Pair
from npformer.check.in_float64 import plain_row
from npformer.check.inputs import as_tuple, like, parameter_names
from npformer.errors import ConfigError, ShapeError
from npformer.functional import Operation
from npformer.functional.arrays import namespace
from npformer.typing import Array, HostArray, Shape

#: gradient name -> one array for each output of the operation: (the gradient's entries…, that output's entries…).
Terms = dict[str, tuple[HostArray, ...]]
#: The most numbers that ``terms`` returns: 128 MB. A single entry's terms (``terms_of``) are as many as dy's entries.
MOST = 1 << 24


def terms(pair: Any, cache: Any, dy: Any, names: Sequence[str] | None = None) -> Terms:
    """All terms of all gradients: {"x": (t,)} with t (x's entries…, dy's entries…); the sum over dy's axes is dx.

    pair: an Operation, a Pair or (forward, backward); cache: of its forward; dy: the upstream gradient, a tuple if
    there are several outputs. The keys are names, or else the inputs that have a gradient, by forward's signature.
    A gradient that is None has no terms. Raises ConfigError if there are too many terms.
    """
    backward, parts, gradients, keys = _opened(pair, cache, dy, names)
    by_key: Terms = {}
    for key, gradient in zip(keys, gradients, strict=True):
        if gradient is not None:
            shapes = [(*np.shape(gradient), *part.shape) for part in parts]
            by_key[key] = tuple(np.zeros(_expected(key, shape)) for shape in shapes)
    for which, index, single in _singles(dy, parts):
        where: Any = (..., *index)
        for key, gradient in zip(keys, as_tuple(backward(single, cache)), strict=True):
            if gradient is not None:
                by_key[key][which][where] = _host(gradient)
    return by_key


def terms_of(pair: Any, cache: Any, dy: Any, name: str, index: tuple[int, ...]) -> tuple[HostArray, ...]:
    """The terms of one entry of one gradient: an array like each part of dy; together they sum to the entry.

    name is a key of ``terms``. Raises ConfigError for another name, ShapeError if index is none of its entries.
    """
    backward, parts, gradients, keys = _opened(pair, cache, dy)
    if name not in keys or gradients[keys.index(name)] is None:
        raise ConfigError(f"{name}: expected an input that has a gradient, one of {', '.join(keys)}")
    place = keys.index(name)
    shape = np.shape(gradients[place])
    if len(index) != len(shape) or any(not -size <= i < size for i, size in zip(index, shape, strict=True)):
        raise ShapeError(f"index: expected one of an entry of {name} {shape}, got {index}")
    entries = tuple(np.zeros(part.shape) for part in parts)
    for which, where, single in _singles(dy, parts):
        entries[which][where] = _host(as_tuple(backward(single, cache))[place])[index]
    return entries


def gradient_names(pair: Any, count: int) -> list[str]:
    """The inputs to which count gradients belong: the first of forward's arguments, token ids apart."""
    row = plain_row(pair)
    if row is None:
        return parameter_names(pair[0], count)
    return [name for name in row.inputs if name != row.ids][:count]


def _opened(
    pair: Any, cache: Any, dy: Any, names: Sequence[str] | None = None
) -> tuple[Any, list[HostArray], tuple[Any, ...], list[str]]:
    """(backward, the parts of dy on the host, the gradients of a single run, their keys)."""
    if isinstance(pair, Operation | Pair):
        backward = pair.backward
    elif isinstance(pair, tuple) and len(pair) == 2:
        backward = pair[1]
    else:
        raise ConfigError(f"pair: expected an Operation, a Pair or (forward, backward), got {type(pair).__name__}")
    gradients = as_tuple(backward(dy, cache))
    keys = gradient_names(pair, len(gradients)) if names is None else list(names)
    return backward, [_host(part) for part in as_tuple(dy)], gradients, keys


def _singles(dy: Any, parts: list[HostArray]) -> Iterator[tuple[int, tuple[int, ...], Any]]:
    """(number of a part, index in it, dy with all entries 0 but this one), for each entry of dy that is not 0."""
    originals = as_tuple(dy)
    for which, part in enumerate(parts):
        for index in np.ndindex(part.shape):
            if part[index] != 0:
                single = [_zeros(original) for original in originals]
                single[which][index] = part[index]
                yield which, index, like(dy, single)


def _zeros(x: Any) -> Array:
    return namespace(x).zeros_like(x) if np.ndim(x) or hasattr(x, "dtype") else np.zeros(())


def _host(x: Any) -> HostArray:
    return np.asarray(x.get() if hasattr(x, "get") and not isinstance(x, np.ndarray) else x, dtype=np.float64)


def _expected(key: str, shape: Shape) -> tuple[int, ...]:
    size = int(np.prod(shape))
    if size > MOST:
        raise ConfigError(
            f"{key}: expected at most {MOST:,} terms, got {size:,} ({' × '.join(map(str, shape))}); "
            "ask for one entry by terms_of, or make the inputs smaller"
        )
    return shape
