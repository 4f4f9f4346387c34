"""The report of `npformer bench`, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from npformer.io.percent import percent
from npformer.io.terminal import fill
from npformer.training.bench import Profile, Row, StepTimes

NAMES = 10  # columns of the names in the summary
COLUMNS = ("operation", "pass", "calls", "ms", "share", "GFLOP", "MB", "rate", "of the ceiling")
WORDS = ("operation", "pass", "of the ceiling")  # aligned to the left, numbers to the right
#: What a narrow terminal leaves out, the first of them first.
LEFT_OUT = ("GFLOP", "MB", "calls", "rate", "share")
MEANINGS = {
    "share": "ms, share: all calls in one step.",
    "GFLOP": "GFLOP: operations of the matrix products.",
    "MB": "MB: the least that must be read and written.",
    "of the ceiling": "The ceiling is this machine's peak rate of products or of memory, whichever takes the operation "
    "longer (above 100 %, the operation's data were still in a cache).",
    "rate": "rate: the operation's own, in the same unit.",
}
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


def roofline(profile: Profile) -> str:
    """The machine's measured peak rates."""
    m, k, n = profile.roofline.shape
    return (
        f"ceilings measured now: products {_number(profile.roofline.flops / 1e9)} GFLOP/s (at {m}×{k}·{k}×{n}), "
        f"memory {_number(profile.roofline.bytes / 1e9)} GB/s"
    )


def table(profile: Profile, width: int | None) -> str:
    """All rows, their sum, and what the columns mean; width: columns of the terminal, None for all of the table."""
    total = {"operation": "the step", "ms": f"{1e3 * profile.seconds:.3f}", "share": "100.0 %"} | {
        "GFLOP": f"{sum(row.flops for row in profile.rows) / 1e9:.3f}",
        "MB": f"{sum(row.bytes for row in profile.rows) / 1e6:.1f}",
    }
    rows = [*map(_cells, profile.rows), total]
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in COLUMNS}
    left_out = list[str]()
    while width is not None and sum(widths.values()) + len(widths) > width and len(left_out) < len(LEFT_OUT):
        left_out.append(LEFT_OUT[len(left_out)])
        del widths[left_out[-1]]
    lines = [_line(row, widths) for row in ({name: name for name in COLUMNS}, *rows)]
    return "\n".join([*lines[:-1], "-" * max(map(len, lines)), lines[-1], "", fill(_meanings(left_out))])


def _meanings(left_out: Sequence[str]) -> str:
    told = [text for name, text in MEANINGS.items() if name not in left_out]
    narrow = f"A wider terminal shows {', '.join(name for name in COLUMNS if name in left_out)}, too."
    return " ".join([*told, PYTHON, *([narrow] if left_out else [])])


def reading(profile: Profile) -> str:
    """The profile explained in sentences."""
    rows = profile.rows
    products = [row for row in rows if row.flops]
    largest = max((row for row in rows if not row.flops), key=lambda row: row.seconds)
    name = f"{largest.op}, {largest.direction}" if largest.direction in ("forward", "backward") else largest.op
    seconds = sum(row.seconds for row in products)
    at_best = sum(row.bound_seconds for row in rows)
    cost = percent(profile.seconds / profile.unclocked - 1)
    taken = percent(seconds / profile.seconds, 0)
    reached = percent(sum(row.flops for row in products) / seconds / profile.roofline.flops, 0)
    return (
        f"{_names(products)}, which hold all matrix products, take {taken} of the step, at {reached} of the "
        f"ceiling of products; the largest of the rest is {name} ({percent(largest.share, 0)}). "
        f"With every operation at its ceiling the step would take {_ms(at_best)} instead of {_ms(profile.seconds)}. "
        f"Without profiling it took {_ms(profile.unclocked)}: profiling adds {cost}, noise included."
    )


def _cells(row: Row) -> dict[str, str]:
    """The row's cells by column."""
    cells = {
        "operation": row.op,
        "pass": row.direction,
        "calls": str(row.calls),
        "ms": f"{1e3 * row.seconds:.3f}",
        "share": percent(row.share),
        "GFLOP": _or_nothing(row.flops / 1e9, 3),
        "MB": _or_nothing(row.bytes / 1e6, 1),
    }
    if row.bound_by and row.seconds:
        amount, unit = (row.flops, "GFLOP/s") if row.bound_by == "products" else (row.bytes, "GB/s")
        cells["rate"] = f"{_number(amount / row.seconds / 1e9)} {unit}"
        cells["of the ceiling"] = f"{percent(row.of_ceiling or 0, 0):>5} {row.bound_by}"
    return cells


def _line(row: dict[str, str], widths: dict[str, int]) -> str:
    cells = (row.get(name, "") for name in widths)
    return " ".join(
        f" {cell:<{width}}"[name != COLUMNS[-1] :] if name in WORDS else f"{cell:>{width}}"
        for cell, (name, width) in zip(cells, widths.items(), strict=True)
    ).rstrip()


def _or_nothing(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value else ""


def _names(rows: Sequence[Row]) -> str:
    """The operations of rows, each once, as a list in words."""
    names = list(dict.fromkeys(row.op for row in rows))
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    if value < 1:
        return f"{value:.3g}"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ms(seconds: float) -> str:
    return f"{_number(1e3 * seconds)} ms"
