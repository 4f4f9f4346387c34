"""An equation: two sets of named arrays that should be equal, bit for bit or to rounding; and its violation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, U, largest, max_abs, worst_at
from npformer.typing import HostArray, Tensors

#: Two float64 results differ if their error relative to the largest entry (``verdict.py``, first rule) is above this.
ROUNDING = 1e-11


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


class Equation(NamedTuple):
    """Two sets of arrays, by name, that are equal if what is claimed holds.

    is_exact: the same numbers in the same order, for runs of the same shapes: with most OpenBLAS kernels the last bits
    of a product's row depend on the number of other rows, so runs of different shapes agree only to rounding.
    """

    expected: Tensors
    got: Tensors
    label: str = "gradient of {}"  # of a name
    is_exact: bool = False
    problem: str = ""  # what gradcheck says if not, with the {worst} tensor, {off} of its size, or {every} that differs
    upstream: Sequence[HostArray] = ()  # the gradients of outputs that gradients come from
    parts: Sequence[Tensors] = ()  # gradients of which these are the sums: their entries may be larger
    is_sum: bool = False  # in few digits each part rounds by itself
    roundings: float = 0.0  # of x that the claim allows
    floor: float = 0.0  # a size beside which an entry may cancel to rounding

    @property
    def violation(self) -> Violation | None:
        """The worst element of the first tensor that differs, if any. In an exact one NaN is nothing, and 0 is −0.

        Else max|got − expected| is divided by max(max|expected|, 1e-3 · the largest entry of all tensors, 1e-4 · that
        of the upstream gradient): where saturated weights pass almost nothing, only the rounding of its terms remains.
        """
        floor = max(NEGLIGIBLE * largest(self.expected.values()), 1e-4 * largest(self.upstream))
        limit = max(ROUNDING, self.roundings * U)
        if self.expected.keys() != self.got.keys():
            return Violation("results", note=f"expected {', '.join(self.expected)}, got {', '.join(self.got)}")
        for name, value in self.expected.items():
            where, got = self.label.format(name), self.got[name]
            if value.shape != got.shape:
                return Violation(where, note=f"expected shape {value.shape}, got {got.shape}")
            error = np.asarray(~(value == got)) if self.is_exact else np.abs(got - value)
            allowed = 0.0 if self.is_exact else limit * max(max_abs(value), floor)
            if not np.all(error <= allowed):  # of NaN, too
                index = worst_at(error)
                return Violation(where, index, float(value[index]), float(got[index]))
        return None


#: What is checked one after the other, since each costs runs; what fails in a form of its own is a violation.
Equations = Iterator[Equation | Violation]
