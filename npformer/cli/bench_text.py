"""The report of `npformer bench`, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npformer.io.percent import percent
from npformer.io.terminal import fill
from npformer.training.bench import Profile, Row, StepTimes

NAMES = 10  # columns of the names in the summary
COLUMNS = ("operation", "pass", "calls", "ms", "share")
WORDS = ("operation", "pass")  # aligned to the left, numbers to the right
PYTHON = "layers, in Python: everything between the operations, such as copies of views and setting gradients to 0."


def times(measured: StepTimes, tokens: int) -> dict[str, str]:
    """The summary of timed steps with so many target tokens each: names and texts."""
    seconds = np.asarray(measured.seconds)
    low, middle, high = (_ms(float(value)) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    return {
        "median": f"{middle} a step",
        "spread": f"best {_ms(min(seconds))}, middle half {low} to {high}, worst {_ms(max(seconds))}; the first step, "
        f"not counted, {_ms(measured.first)}",
        "steps": f"{len(seconds)} in {seconds.sum():.1f} s",
        "tokens/s": f"{tokens / float(np.median(seconds)):,.0f} target tokens ({tokens:,} a step)",
        "loss": f"{measured.first_loss:.4f} at first, {measured.last_loss:.4f} at last",
    }


def lines(told: Mapping[str, str]) -> str:
    """Names and texts, one a line."""
    return "\n".join(f"{name:<{NAMES}}{text}" for name, text in told.items())


def table(profile: Profile) -> str:
    """All rows, their sum, what the columns mean, and what the profile cost."""
    total = {"operation": "the step", "ms": f"{1e3 * profile.seconds:.3f}", "share": "100.0 %"}
    rows = [*map(_cells, profile.rows), total]
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in COLUMNS}
    lines = [_line(row, widths) for row in ({name: name for name in COLUMNS}, *rows)]
    cost = percent(profile.seconds / profile.unclocked - 1)
    meaning = (
        f"ms, share: all calls in one step. {PYTHON} Without profiling a step took {_ms(profile.unclocked)}: profiling "
        f"adds {cost}, noise included."
    )
    return "\n".join([*lines[:-1], "-" * max(map(len, lines)), lines[-1], "", fill(meaning)])


def _cells(row: Row) -> dict[str, str]:
    """The row's cells by column."""
    return {
        "operation": row.op,
        "pass": row.direction,
        "calls": str(row.calls),
        "ms": f"{1e3 * row.seconds:.3f}",
        "share": percent(row.share),
    }


def _line(row: dict[str, str], widths: dict[str, int]) -> str:
    cells = (row.get(name, "") for name in widths)
    return " ".join(
        f"{cell:<{width}}" if name in WORDS else f"{cell:>{width}}"
        for cell, (name, width) in zip(cells, widths.items(), strict=True)
    ).rstrip()


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    if value < 1:
        return f"{value:.3g}"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ms(seconds: float) -> str:
    return f"{_number(1e3 * seconds)} ms"
