"""Detects checks without a verdict. Those that could not fail are refused, or marked as proving nothing.

- Inputs that are constant (all zeros, all ones): γ = 1 hides a γ on the wrong side of a mean, β = 0 a
  forgotten β. A layer's own constant parameters are moved a little before the check (``subject.py``).
- A length of 1 along the batch or along the sequence: a forgotten sum over it has no effect.
- A tolerance that would accept a gradient that is twice too large.
- True gradients that are all zero: any multiple of them is right, too.
- A forward that is not finite: no tensor has a verdict. An upstream gradient of 0 there does not help: 0·NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from npformer.check.measures import is_constant
from npformer.check.report import UNCLEAR, Report, Row
from npformer.check.subject import Subject
from npformer.errors import ConfigError, ShapeError
from npformer.typing import Shape, Tensors

#: A scaled error of 1 is a gradient twice too large; a tenth of that is the widest useful tolerance.
WIDEST_TOLERANCE = 0.1


def refuse_wide(tolerance: float) -> None:
    """Raise ConfigError for a tolerance under which wrong gradients pass."""
    if not 0 < tolerance <= WIDEST_TOLERANCE:
        raise ConfigError(
            f"tolerance: expected 0 < tolerance <= {WIDEST_TOLERANCE}, got {tolerance}; "
            "with a wider one a gradient twice too large would pass, and the check prove nothing"
        )


def refuse_length_one(inputs: Sequence[Any], names: Sequence[str]) -> None:
    """Raise ShapeError if an input has length 1 along its first or its last-but-one axis."""
    for name, x in zip(names, inputs, strict=True):
        shape: Shape = getattr(x, "shape", ())
        if len(shape) >= 2 and 1 in (shape[0], shape[-2]):
            axis = 0 if shape[0] == 1 else len(shape) - 2
            raise ShapeError(
                f"{name}: expected at least 2 along axis {axis}, got shape {tuple(shape)}: a sum or a transposition "
                "that is missing there would not show; use longer inputs, or say allow_length_one=True"
            )


def why_blind(inputs: Tensors) -> str:
    """Why a check at these float inputs, by name, cannot see every mistake; "" if none is constant."""
    for name, x in inputs.items():
        if is_constant(x):
            return f"{name} is {x.flat[0]:g} everywhere; use random numbers"
    return ""


def not_finite(checked: Subject) -> Report | None:
    """A report without a verdict if the forward is not finite at the check's point; None if it is."""
    why = "forward is not finite here"
    for number, y in enumerate(checked.outputs({})):
        shown = checked.kept[number]
        places = np.argwhere(~np.isfinite(y)).tolist()
        if places:
            problem = (
                f"{why}: output {shown}{places[0] or ''} is {y[*places[0]]}, as {len(places)} of {y.size} entries are "
                f"not finite{_remedy(checked, number, places[0])}; choose inputs at which every output is finite"
            )
            return without_gradients(checked, problem, why)
    return None


def without_gradients(checked: Subject, problem: str, why: str) -> Report:
    """A report without a verdict on any tensor, and its problem."""
    tensors, nan = checked.tensors.items(), math.nan
    rows = (Row(n, x.shape, x.size, nan, nan, (), nan, nan, 1.0, UNCLEAR, why) for n, x in tensors)
    return Report("", tuple(rows), (problem,))


def _remedy(checked: Subject, number: int, place: list[int]) -> str:
    """The input entry, among the first hundred, at which another number makes that entry of an output finite."""
    tensors = checked.tensors
    for tensor, index in islice(((name, index) for name, x in tensors.items() for index in np.ndindex(x.shape)), 100):
        moved = tensors[tensor].copy()
        moved[index] = 0.7  # in the domain of log, sqrt, arccos, 1/x
        with np.errstate(all="ignore"), suppress(Exception):
            if np.isfinite(checked.outputs({tensor: moved})[number][*place]):
                return f"; with another number for {tensor}{[*index] or ''} = {tensors[tensor][index]:g} it is finite"
    return ""
