"""The result of an invariant: it holds, it does not hold (with the place), or it does not apply (with the reason).

A violation is found by comparing two sets of named arrays that should be equal: bit for bit, or to rounding.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, largest, max_abs, worst_at
from npformer.errors import GradientError
from npformer.io.notebook import Displayed
from npformer.io.percent import finite
from npformer.typing import HostArray, HostArrays, Tensors

#: Two float64 results differ if their error relative to the largest entry (``judge.py``, first rule) is above this.
ROUNDING = 1e-11

NO_TENSORS: Tensors = {}
HOLDS, FAILS, NOT_APPLICABLE = "holds", "DOES NOT HOLD", "does not apply"


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
            return f"{self.where}: {self.note}"
        element = f"{self.where}[{', '.join(map(str, self.place))}]" if self.place else self.where
        return f"{element}: expected {self.expected:.10g}, got {self.got:.10g}"


@dataclass(frozen=True)
class ClaimResult:
    """The result of one check on one target."""

    name: str
    meaning: str  # in one line
    verdict: str  # HOLDS, FAILS or NOT_APPLICABLE
    reason: str = ""  # why it does not apply, or the target's error
    violation: Violation | None = None

    @property
    def holds(self) -> bool:
        return self.verdict == HOLDS

    @property
    def fails(self) -> bool:
        return self.verdict == FAILS

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE

    def __str__(self) -> str:
        detail = str(self.violation) if self.violation is not None else self.reason
        return f"{self.verdict}: {detail}" if detail else self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Everything, for machines; numbers that JSON cannot hold become None."""
        fields = asdict(self)
        if self.violation is not None:
            fields["violation"] = {name: finite(value) for name, value in self.violation._asdict().items()}
        return fields


@dataclass(frozen=True, repr=False)
class ClaimResults(Displayed):
    """What ``certify`` and ``prove`` return. ``ok``, ``str()`` at 80 columns, ``to_dict()``, ``raise_if_failed()``."""

    name: str
    rows: tuple[ClaimResult, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something holds and nothing fails; checks that do not apply decide nothing."""
        return any(row.holds for row in self.rows) and not self.failed

    @property
    def failed(self) -> tuple[ClaimResult, ...]:
        """The rows that do not hold."""
        return tuple(row for row in self.rows if row.fails)

    def __getitem__(self, name: str) -> ClaimResult:
        """The row of the check called name. Raises KeyError."""
        return {row.name: row for row in self.rows}[name]

    def raise_if_failed(self) -> None:
        """Raise GradientError, with the list, unless ok."""
        if not self.ok:
            raise GradientError(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {"name": self.name, "ok": self.ok, "claims": [row.to_dict() for row in self.rows]}

    def to_json(self) -> str:
        """``to_dict`` as JSON."""
        return json.dumps(self.to_dict())

    def summary(self) -> str:
        """Counts of claims that hold, fail and do not apply, in one line."""
        count = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in (HOLDS, FAILS)}
        rest = len(self.rows) - sum(count.values())
        return f"{count[HOLDS]} hold, {count[FAILS]} do not hold, {rest} do not apply"

    def __str__(self) -> str:
        return self.text()

    def text(self, columns: int = 80) -> str:
        """All rows, in lines of so many columns."""
        width = max((len(row.name) for row in self.rows), default=0)
        lines = [line for row in self.rows for line in _entry(row, width, columns)]
        return "\n".join([*_wrapped(self.name, "", columns), *lines, f"  {self.summary()}"])


def _entry(row: ClaimResult, width: int, columns: int) -> list[str]:
    """A row; a failing one includes the claim."""
    margin = " " * (width + 4)
    text = f"{row} (claimed: {row.meaning})" if row.fails else str(row)
    return _wrapped(f"  {row.name.ljust(width)}  {text}", margin, columns)


def _wrapped(text: str, margin: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, subsequent_indent=margin, replace_whitespace=False) or [""]


def same_bits(expected: Tensors, got: Tensors) -> Violation | None:
    """The first element that differs, if any; NaN differs from everything, and 0 is −0.

    For runs of the same shapes: with most OpenBLAS kernels the last bits of a product's row depend on the
    number of other rows, so runs of different shapes agree only to rounding.
    """
    return _first(expected, got, _bits)


def same_to_rounding(expected: Tensors, got: Tensors, upstream: Tensors = NO_TENSORS) -> Violation | None:
    """The worst element of the first tensor that differs by more than rounding, if any.

    max|got − expected| is divided by max(max|expected|, 1e-3 · the largest entry of all tensors). Given the
    upstream gradient, by at least 1e-4 of it: where saturated weights pass almost nothing, only the rounding
    of terms of its size remains.
    """
    floor = max(NEGLIGIBLE * largest(expected.values()), 1e-4 * largest(upstream.values()))
    return _first(expected, got, lambda where, e, g: close(where, e, g, max(max_abs(e), floor)))


def close(
    where: str, expected: HostArray, got: HostArray, scale: float, tolerance: float = ROUNDING
) -> Violation | None:
    """The worst element if it is off by more than tolerance·scale, or NaN."""
    error = np.abs(got - expected)
    if np.all(error <= tolerance * scale):  # False for NaN
        return None
    return _at(where, expected, got, np.nan_to_num(error, nan=np.inf))


def gradients_of(gradients: Tensors, suffix: str = "") -> HostArrays:
    """Gradients by the names that a violation shows."""
    return {f"gradient of {name}{suffix}": x for name, x in gradients.items()}


def _bits(where: str, expected: HostArray, got: HostArray) -> Violation | None:
    different = ~(expected == got)
    return _at(where, expected, got, different) if different.any() else None


def _first(
    expected: Tensors, got: Tensors, judge: Callable[[str, HostArray, HostArray], Violation | None]
) -> Violation | None:
    if expected.keys() != got.keys():
        return Violation("results", note=f"expected {', '.join(expected)}, got {', '.join(got)}")
    for name, value in expected.items():
        if value.shape != got[name].shape:
            return Violation(name, note=f"expected shape {value.shape}, got {got[name].shape}")
        violation = judge(name, value, got[name])
        if violation is not None:
            return violation
    return None


def _at(where: str, expected: HostArray, got: HostArray, badness: HostArray) -> Violation:
    index = worst_at(badness)
    return Violation(where, index, float(expected[index]), float(got[index]))
