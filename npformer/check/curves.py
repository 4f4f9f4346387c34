"""The V-shaped curves of a check: for each tensor, the error of the central difference against h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.check.look import random_directions, random_upstreams
from npformer.check.oracles import unit
from npformer.check.report import Report
from npformer.check.subject import Subject
from npformer.check.sweep import STEPS, sweep
from npformer.typing import HostArray, Values


class ErrorCurve(NamedTuple):
    """|D(h) − analytic| / scale, at the element of a tensor with the largest error."""

    name: str
    h: HostArray  # (k,)
    error: HostArray  # (k,)
    verdict: str


def v_curves(
    report: Report,
    target: Any,
    inputs: Sequence[Any],
    options: Values,
    device: Device | None = None,
    seed: int = 0,
) -> list[ErrorCurve]:
    """An ErrorCurve for each row of a report that gradcheck made of target at these inputs, with this seed."""
    checked = Subject(target, inputs, options, device)
    upstreams = random_upstreams(checked, seed)
    directions = random_directions(checked, seed)
    curves = []
    for row in report.rows:
        at = row.worst_index
        direction = directions[row.tensor][at[0]] if row.by_direction else unit(row.shape, at)
        slopes = sweep(checked, row.tensor, direction, upstreams[row.upstream])
        error = np.abs(slopes.central - row.analytic) / row.scale
        curves.append(ErrorCurve(f"{report.name} · {row.tensor}", STEPS, error, row.verdict))
    return curves
