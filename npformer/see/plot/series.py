"""The numbers of metrics.jsonl as series over the training step.

A value that is missing from a line of the file gives no point. A value that is not finite (a diverged loss, also
one of 1e99, or null in JSON) is kept as NaN, so that the picture can show a gap. If a step occurs twice, as after
resuming from an older checkpoint, the last line counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npformer.errors import DataError

#: No loss of a learning run is this large; its square would overflow.
_TOO_LARGE = 1e99


class Series(NamedTuple):
    """One measured quantity: values over steps, steps rising."""

    steps: npt.NDArray[np.float64]  # (n,)
    values: npt.NDArray[np.float64]  # (n,)  NaN where the logged value was not finite


def of_values(steps: Sequence[float], values: Sequence[float]) -> Series:
    """Steps and values as a series; values that are not finite, or too large, are NaN."""
    array = np.array(values, dtype=np.float64)
    return Series(np.array(steps, dtype=np.float64), np.where(np.abs(array) < _TOO_LARGE, array, np.nan))


def series(metrics: Sequence[Mapping[str, Any]], kind: str, field: str) -> Series:
    """The field of all lines of this kind. Raises DataError, naming the line, for a value that is not a number."""
    points: dict[float, float] = {}
    for number, line in enumerate(metrics, start=1):
        if line.get("kind") == kind and field in line:
            step = _number(line.get("step"), number, "step")
            if not np.isfinite(step):
                raise DataError(f"metrics, line {number}: expected a finite step, got {step}; mend the file")
            points[step] = _number(line[field], number, field)
    steps = sorted(points)
    return of_values(steps, [points[step] for step in steps])


def running_mean(line: Series, width: int) -> Series:
    """Each value replaced by the mean of the finite values at most width // 2 places away; gaps stay."""
    window = np.ones(2 * (width // 2) + 1)
    inside = slice(width // 2, width // 2 + line.values.size)
    finite = np.isfinite(line.values)
    total = np.convolve(np.nan_to_num(line.values), window)[inside]
    count = np.convolve(finite.astype(np.float64), window)[inside]
    return Series(line.steps, np.where(finite, total / np.maximum(count, 1), np.nan))


def _number(value: Any, number: int, field: str) -> float:
    if value is None and field != "step":
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"metrics, line {number}: expected a number for {field}, got {value!r}; mend the file")
    return float(value)
