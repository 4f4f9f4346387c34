"""Measures sizes and errors wherever two sets of gradients are compared.

The scaled error of a gradient a with the witness's value n is max|a − n| / scale, with

    scale = max(max|n|, 1e-3 · the largest entry of all gradients of the check), 1 if all are 0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from npformer.typing import HostArray

#: Unit roundoff of float64.
U = 2.0**-53
#: A tensor below this share of the check's largest gradient is scaled by the latter.
NEGLIGIBLE = 1e-3


def max_abs(x: HostArray) -> float:
    """The largest absolute entry; 0 of an empty array."""
    return float(np.max(np.abs(x), initial=0.0))


def apart(a: HostArray, b: HostArray) -> float:
    """The largest difference; ∞ if the shapes differ, or if a number is finite in one array alone."""
    finite = np.isfinite(a)
    if a.shape != b.shape or not np.array_equal(finite, np.isfinite(b)):
        return np.inf
    return max_abs(a[finite] - b[finite])


def largest(arrays: Iterable[HostArray]) -> float:
    """The largest absolute entry of all; 0 if there are none."""
    return max(map(max_abs, arrays), default=0.0)


def scale_of(n: HostArray, largest: float) -> float:
    """The divisor of the errors of a tensor n; largest: the largest gradient entry of the check."""
    return max(max_abs(n), NEGLIGIBLE * largest) or 1.0


def worst_at(error: HostArray) -> tuple[int, ...]:
    """The index of the largest entry; NaN counts as larger than all."""
    index = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
    return tuple(int(i) for i in index)


def terms(upstream: Sequence[HostArray], outputs: Sequence[HostArray]) -> float:
    """Σ|r·y|: the size of the terms of L = Σ r·y."""
    return loss_of([*map(np.abs, upstream)], [*map(np.abs, outputs)])


def loss_of(upstream: Sequence[HostArray], outputs: Sequence[HostArray]) -> float:
    """L = Σ r·y."""
    return sum(float(np.sum(r * y)) for r, y in zip(upstream, outputs, strict=True))


def rms(x: HostArray) -> float:
    """√mean(x²) of the finite entries; 0 of an empty array."""
    x = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def is_constant(x: HostArray) -> bool:
    """Whether several entries are all one number, which hides mistakes."""
    return x.size > 1 and bool(np.all(x == x.flat[0]))


def direction_in(x: HostArray, rng: np.random.Generator) -> HostArray:
    """A random direction, 0 where x is not finite."""
    return np.where(np.isfinite(x), rng.normal(size=x.shape), 0)


def nearby(x: HostArray, share: float, rng: np.random.Generator) -> HostArray:
    """x, of which each entry moves by at most a share of itself."""
    return np.asarray(x * (1 + share * rng.uniform(-1, 1, size=x.shape)))


def with_gaps(x: HostArray) -> HostArray:
    """A copy of x with a gap after each element; a single number is unchanged."""
    if not x.ndim:
        return x
    spread: HostArray = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)[..., ::2]
    spread[...] = x
    return spread
