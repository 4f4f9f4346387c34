"""Judges a kernel in low precision without a reference, by differences of its own forward."""

from __future__ import annotations

import numpy as np

from npformer.check.measures import largest, max_abs, rms, scale_of, terms, worst_at
from npformer.check.oracles import Oracle
from npformer.check.precision.formats import Format
from npformer.check.report import RIGHT, UNCLEAR, WRONG, Row
from npformer.check.subject import Subject, Upstream
from npformer.io.percent import percent
from npformer.typing import HostArrays

#: Of an entry, or of a tensor's largest one: a wider limit decides nothing.
TOO_WIDE = 0.2
LAMBDA = 4.0
NO_REFERENCE = (
    "no reference: differences of the {} forward itself decide; reference=(a float64 pair or forward) tells more"
)


def by_own_forward(checked: Subject, upstream: Upstream, claimed: HostArrays, precision: Format) -> tuple[Row, ...]:
    """The rows of a kernel without a reference: differences of its own forward decide, where they are fine enough.

    An entry is right if |a − n| ≤ 8e + λ·u·√N·A + φ: e the differences' error estimate, A the entry's reach
    (``judge.py``), N the number of terms of L, whose roundings add like a random walk, λ = 4, and φ = λ·u·max(max|n|,
    rms(r·y)·√N / rms x). Source: Higham & Mary 2019, SIAM J. Sci. Comput. 41, theorem 3.1.
    """
    outputs = checked.outputs({})
    oracle = Oracle(checked, [upstream], use_complex=False)
    oracle.rounding = max(oracle.rounding, precision.u)  # bfloat16 numbers come as float32: steps would be too small
    evidence = {tensor: oracle.every_element(tensor) for tensor in claimed}
    most, count = largest(slopes.truth for slopes in evidence.values()), sum(y.size for y in outputs)
    rows = []
    for tensor, slopes in evidence.items():
        a, n = claimed[tensor], slopes.truth[0]
        typical = rms(checked.tensors[tensor]) or 1.0
        floor = LAMBDA * precision.u * max(max_abs(n), terms(upstream, outputs) / count**0.5 / typical)
        limit = LAMBDA * precision.u * np.sqrt(count) * slopes.reach[0] + floor + 8 * slopes.central_error[0]
        scale, off = scale_of(n, most), np.abs(a - n)
        share = np.where(off == 0, 0.0, off / np.where(limit == 0, 1.0, limit))
        place = worst_at(share)
        told = float(np.sum(np.square(n[limit <= TOO_WIDE * np.abs(n)])))  # by entries at which zeros would be WRONG
        is_told = told >= 0.5 * float(np.sum(np.square(n))) or max_abs(limit) <= TOO_WIDE * scale
        verdict = WRONG if not share[place] <= 1 else RIGHT if is_told else UNCLEAR
        note = f"in {precision.name}, {percent(float(share[place]), 0)} of what that allows"
        if verdict == UNCLEAR:
            note = (
                f"{precision.name} allows {float(np.median(limit)) / scale:.0e} of the largest entry here; give "
                "reference=, a float64 pair or forward"
            )
        if not np.all(np.isfinite(a)):
            note = f"{int(np.sum(~np.isfinite(a)))} of {a.size} entries are not finite in {precision.name}"
        error = float(off[place] / scale)
        rows.append(
            Row(tensor, n.shape, n.size, error, error, place, float(a[place]), float(n[place]), scale, verdict, note)
        )
    return tuple(rows)
