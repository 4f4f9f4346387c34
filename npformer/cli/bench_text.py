"""The report of `npformer bench`, in lines of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from npformer.percent import percent
from npformer.training.bench import Profile, Row, StepTimes

WIDTH = 100
HEADER = (
    f"{'operation':<20} {'pass':<8} {'calls':>5} {'ms':>9} {'share':>7} {'GFLOP':>8} {'MB':>7} {'rate':>13}"
    f"  {'of the ceiling':<14}"
)
COLUMNS = (
    "ms, share: all calls in one step. GFLOP: operations of the matrix products. MB: the least that must be read and "
    "written. The ceiling is this machine's peak rate of products or of memory, whichever takes the operation longer; "
    "rate is the operation's rate in the same unit (above 100 %, its data were still in a cache). "
    "layers, in Python: everything between the operations, such as copies of views and setting gradients to 0."
)


def times(found: StepTimes, tokens: int) -> str:
    """The summary of timed steps with so many target tokens each."""
    seconds = np.asarray(found.seconds)
    low, middle, high = (_ms(float(value)) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    return "\n".join([
        f"median    {middle} a step",
        f"spread    best {_ms(min(seconds))}, middle half {low} to {high}, worst {_ms(max(seconds))}; "
        f"the first step, not counted, {_ms(found.first)}",
        f"steps     {len(seconds)} in {seconds.sum():.1f} s",
        f"tokens/s  {tokens / float(np.median(seconds)):,.0f} target tokens ({tokens:,} a step)",
        f"loss      {found.first_loss:.4f} at first, {found.last_loss:.4f} at last",
    ])  # fmt: skip


def roofline(profile: Profile) -> str:
    """The machine's measured peak rates."""
    m, k, n = profile.roofline.shape
    return (
        f"ceilings measured now: products {_number(profile.roofline.flops / 1e9)} GFLOP/s (at {m}×{k}·{k}×{n}), "
        f"memory {_number(profile.roofline.bytes / 1e9)} GB/s"
    )


def table(profile: Profile) -> str:
    """All rows, and their sum."""
    rule = "-" * len(HEADER)
    total = f"{'the step':<20} {'':<8} {'':>5} {1e3 * profile.seconds:>9.3f} {'100.0 %':>7}"
    work = f"{sum(row.flops for row in profile.rows) / 1e9:>8.3f} {sum(row.bytes for row in profile.rows) / 1e6:>7.1f}"
    return "\n".join([HEADER, *map(_line, profile.rows), rule, f"{total} {work}"])


def reading(profile: Profile) -> str:
    """The profile explained in sentences."""
    rows = profile.rows
    products = [row for row in rows if row.flops]
    largest = max((row for row in rows if not row.flops), key=lambda row: row.seconds)
    seconds = sum(row.seconds for row in products)
    at_best = sum(row.bound_seconds for row in rows)
    cost = percent(profile.seconds / profile.unclocked - 1)
    taken = percent(seconds / profile.seconds, 0)
    reached = percent(sum(row.flops for row in products) / seconds / profile.roofline.flops, 0)
    return (
        f"{_names(products)}, which hold all matrix products, take {taken} of the step, at {reached} of the "
        f"ceiling of products; the largest of the rest is {_name(largest)} ({percent(largest.share, 0)}). "
        f"With every operation at its ceiling the step would take {_ms(at_best)} instead of {_ms(profile.seconds)}. "
        f"Without profiling it took {_ms(profile.unclocked)}: profiling adds {cost}, noise included."
    )


def wrapped(text: str) -> str:
    """text in lines of at most WIDTH columns; a number and its % stay together."""
    return textwrap.fill(text.replace(" %", "\0%"), WIDTH).replace("\0%", " %")


def _line(row: Row) -> str:
    rate = share = ""
    if row.bound_by and row.seconds:
        amount, unit = (row.flops, "GFLOP/s") if row.bound_by == "products" else (row.bytes, "GB/s")
        rate = f"{_number(amount / row.seconds / 1e9)} {unit}"
        share = f"{percent(row.of_ceiling or 0, 0):>5} {row.bound_by}"
    return (
        f"{row.op:<20} {row.direction:<8} {row.calls:>5} {1e3 * row.seconds:>9.3f} {percent(row.share):>7} "
        f"{_or_nothing(row.flops / 1e9, 3):>8} {_or_nothing(row.bytes / 1e6, 1):>7} {rate:>13}  {share:<14}"
    ).rstrip()


def _or_nothing(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value else ""


def _names(rows: Sequence[Row]) -> str:
    """The operations of rows, each once, as a list in words."""
    names = list(dict.fromkeys(row.op for row in rows))
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _name(row: Row) -> str:
    return f"{row.op}, {row.direction}" if row.direction in ("forward", "backward") else row.op


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    if value < 1:
        return f"{value:.3g}"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ms(seconds: float) -> str:
    return f"{_number(1e3 * seconds)} ms"
