"""Detects checks that could not fail: they are refused, or marked as proving nothing.

- Inputs that are constant (all zeros, all ones): γ = 1 hides a γ on the wrong side of a mean, β = 0 a
  forgotten β. A layer's own constant parameters are moved a little before the check (``subject.py``).
- A length of 1 along the batch or along the sequence: a forgotten sum over it has no effect.
- A tolerance that would accept a gradient that is twice too large.
- True gradients that are all zero: any multiple of them is right, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npformer.errors import ConfigError, ShapeError
from npformer.typing import Shape, Tensors

#: A scaled error of 1 is a gradient twice too large; half of that is the widest useful tolerance.
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
        if x.size > 1 and bool(np.all(x == x.flat[0])):
            return f"{name} is {x.flat[0]:g} everywhere; use random numbers"
    return ""
