"""The terms of a gradient: backward is linear in dy, so each entry of a gradient is a sum of one term for each entry
of dy.

    dx_i = Σ_o dy_o·J_oi        the term of dy_o is what backward returns at i if all other entries of dy are 0

Backward itself computes the terms, one entry of dy at a time, so no formula is written a second time. Their sum is the
gradient of a single run up to the rounding of that sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.see.record.calls import gradient_names
from npformer.typing import Array, HostArray

#: The most numbers of one gradient's terms: 128 MB. A single entry's terms are as many as dy's entries.
MOST = 1 << 24


def terms(pair: Any, cache: Any, dy: Any, name: str, index: tuple[int, ...] | None = None) -> tuple[HostArray, ...]:
    """The terms of a gradient, an array for each part of dy: (the gradient's entries…, that part's entries…).

    The sum over the part's axes is the gradient. index: of the one entry whose terms are asked for, each array then
    like its part of dy. pair: an Operation, a Pair or (forward, backward); cache: of its forward; dy: the upstream
    gradient, a tuple if there are several outputs; name: of the input, by forward's signature. Raises ConfigError for
    another name, and if there are too many terms.
    """
    backward = pair[1] if type(pair) is tuple else pair.backward
    gradients = as_tuple(backward(dy, cache))
    names = gradient_names(pair, len(gradients))
    if name not in names or gradients[names.index(name)] is None:
        raise ConfigError(f"{name}: expected an input that has a gradient, one of {', '.join(names)}")
    which, entries = names.index(name), ... if index is None else index
    parts = [_host(part) for part in as_tuple(dy)]
    shapes = [(*np.shape(_host(gradients[which])[entries]), *part.shape) for part in parts]
    size = sum(int(np.prod(shape)) for shape in shapes)
    if size > MOST:
        raise ConfigError(f"{name}: expected at most {MOST:,} terms, got {size:,}; ask for one entry by its index")
    found = tuple(np.zeros(shape) for shape in shapes)
    for number, part in enumerate(parts):
        for at in map(tuple, np.argwhere(part)):
            single = [_zeros(other) for other in as_tuple(dy)]
            single[number][at] = part[at]
            found[number][(..., *at)] = _host(as_tuple(backward(like(dy, single), cache))[which])[entries]
    return found


def _zeros(x: Any) -> Array:
    return namespace(x).zeros_like(x) if np.ndim(x) or hasattr(x, "dtype") else np.zeros(())


def _host(x: Any) -> HostArray:
    return np.asarray(x.get() if hasattr(x, "get") and not isinstance(x, np.ndarray) else x, dtype=np.float64)
