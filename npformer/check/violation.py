"""A violation of an invariant: two sets of named arrays should be equal, bit for bit or to rounding, and are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, largest, max_abs, worst_at
from npformer.typing import HostArray, HostArrays, Tensors

#: Two float64 results differ if their error relative to the largest entry (``verdict.py``, first rule) is above this.
ROUNDING = 1e-11

NO_TENSORS: Tensors = {}


class DoesNotApply(Exception):
    """Raised inside a check that does not apply to its target; the message is the reason."""


class Violation(NamedTuple):
    """A failed check: a tensor, the index of its worst element, and the two numbers that should agree."""

    where: str
    place: tuple[int, ...] = ()
    expected: float = math.nan
    got: float = math.nan
    note: str = ""  # a text instead of the numbers

    def __str__(self) -> str:
        if self.note:
            return ": ".join(filter(None, (self.where, self.note)))
        element = f"{self.where}[{', '.join(map(str, self.place))}]" if self.place else self.where
        return f"{element}: expected {self.expected:.10g}, got {self.got:.10g}"


def same_bits(expected: Tensors, got: Tensors) -> Violation | None:
    """The first element that differs, if any; NaN differs from everything, and 0 is −0.

    For runs of the same shapes: with most OpenBLAS kernels the last bits of a product's row depend on the
    number of other rows, so runs of different shapes agree only to rounding.
    """
    return _first(expected, got, lambda expected, got: ~(expected == got))


def same_to_rounding(
    expected: Tensors, got: Tensors, upstream: Tensors = NO_TENSORS, rounding: float = ROUNDING
) -> Violation | None:
    """The worst element of the first tensor that differs by more than rounding, if any.

    max|got − expected| is divided by max(max|expected|, 1e-3 · the largest entry of all tensors). Given the
    upstream gradient, by at least 1e-4 of it: where saturated weights pass almost nothing, only the rounding
    of terms of its size remains.
    """
    floor = max(NEGLIGIBLE * largest(expected.values()), 1e-4 * largest(upstream.values()))

    def apart(expected: HostArray, got: HostArray) -> HostArray:
        error = np.abs(got - expected)
        is_right = error <= rounding * max(max_abs(expected), floor)  # False for NaN
        return np.where(is_right, 0.0, np.nan_to_num(error, nan=np.inf))

    return _first(expected, got, apart)


def gradients_of(gradients: Tensors, suffix: str = "") -> HostArrays:
    """Gradients by the names that a violation shows."""
    return {f"gradient of {name}{suffix}": x for name, x in gradients.items()}


def _first(expected: Tensors, got: Tensors, apart: Callable[[HostArray, HostArray], HostArray]) -> Violation | None:
    """The worst element of the first tensor that has one where apart is not 0."""
    if expected.keys() != got.keys():
        return Violation("results", note=f"expected {', '.join(expected)}, got {', '.join(got)}")
    for name, value in expected.items():
        if value.shape != got[name].shape:
            return Violation(name, note=f"expected shape {value.shape}, got {got[name].shape}")
        badness = apart(value, got[name])
        if np.any(badness):
            index = worst_at(badness)
            return Violation(name, index, float(value[index]), float(got[name][index]))
    return None
