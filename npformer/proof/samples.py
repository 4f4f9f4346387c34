"""Other points of the same check: drawn by the caller, or of sizes at which kernels change their method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.proof.report import Report, Row

#: Around a warp, a vector register or a cache line, and around a block.
SIZES = (31, 32, 33, 127, 128, 129)
SAMPLES = 5


def sampled_points(sample: Callable[[np.random.Generator], Sequence[Any]] | None, seed: int) -> list[tuple[str, Any]]:
    """(name, inputs) of each point that sample draws."""
    if sample is None:
        return []
    return [(f"sample {i + 1}", tuple(sample(np.random.default_rng([seed, 6, i])))) for i in range(SAMPLES)]


def sized_points(sizes: Callable[[int], Sequence[Any]] | None) -> list[tuple[str, Any]]:
    """(name, inputs) of each size."""
    return [] if sizes is None else [(f"size {n}", tuple(sizes(n))) for n in SIZES]


def merged(report: Report, others: Sequence[tuple[str, Report]]) -> Report:
    """One report with the worst row of all points for each tensor, which names its point."""
    rows: dict[str, Row] = {row.tensor: row for row in report.rows}
    problems, notes = list(report.problems), list(report.notes)
    for said, other in others:
        for row in other.rows:
            if row.tensor not in rows or _gravity(row) > _gravity(rows[row.tensor]):
                rows[row.tensor] = replace(row, note=f"{row.note}; at {said}" if row.note else f"at {said}")
        problems += [f"{problem} (at {said})" for problem in other.problems if problem not in report.problems]
        notes += [note for note in other.notes if note not in notes]
    return replace(report, rows=tuple(rows.values()), problems=tuple(problems), notes=tuple(notes))


def _gravity(row: Row) -> tuple[bool, float]:
    return not row.ok, row.scaled_error if np.isfinite(row.scaled_error) else np.inf
