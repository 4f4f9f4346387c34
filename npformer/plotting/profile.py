"""Where a training step's time goes: a bar for each operation, with the least possible time inside it.

The forward and the backward of an operation are next to each other, the slowest operation at the top. The full
colour inside a bar is the least time that the tighter ceiling allows, so the pale rest is the possible gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from npformer.errors import DataError
from npformer.io.percent import percent
from npformer.plotting.svg import LETTER, Axis, Drawing, Section, check_place, number, path, text, write_sheet

_WIDTH, _LEFT, _RIGHT, _TOP = 850, 150, 320, 24  # pixels; numbers are beside the bars, at their right
_BAR, _GAP = 17, 9  # pixels: a bar and its space, and the space between operations
_COLOURS = {"forward": "c0", "backward": "c1", "update": "c2"}
_LEAST = 1e-3  # share of the step: smaller operations are counted, not drawn


class ProfileRow(Protocol):
    """The values drawn for a part of a step."""

    @property
    def op(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def bound_seconds(self) -> float: ...
    @property
    def bound_by(self) -> str | None: ...


class _Bar(NamedTuple):
    """A row and the height of its bar's upper edge, in pixels."""

    row: ProfileRow
    top: float
    opens: bool  # the first bar of its operation, which has the name beside it


def draw_profile(rows: Sequence[ProfileRow], path: Path, title: str, notes: Sequence[str] = ()) -> None:
    """Write an SVG of the parts of a step; notes are sentences below the title.

    An existing picture at path is replaced. Raises DataError if there is nothing to draw,
    OutputError if path cannot be written.
    """
    check_place(path)
    write_sheet(path, title, notes, [Section("", "", [profile_drawing(rows)])])


def profile_drawing(rows: Sequence[ProfileRow]) -> Drawing:
    """The bars of the parts of a step. Raises DataError if none took time."""
    if not any(row.seconds > 0 for row in rows):
        raise DataError("rows: expected at least one part of a step that took time, got none; nothing to draw")
    bars, bottom = _arranged(rows)
    x = Axis(0.0, max(1e3 * row.seconds for row in rows), _LEFT, _WIDTH - _RIGHT)
    body = [_key()]
    for tick in x.ticks():
        at = number(x.at(tick))
        body.append(path("frame rule", f"M{at} {_TOP}V{number(bottom)}"))
        body.append(text(x.at(tick), bottom + 15, f"{tick:,.5g}", anchor="middle"))
    for bar in bars:
        body += _drawn(bar, x)
    left_out = len(rows) - len(bars)
    caption = "milliseconds of one step; beside a bar its share of the step"
    caption += f" ({left_out} below {percent(_LEAST)} left out)" if left_out else ""
    body.append(text(_LEFT, bottom + 32, caption))
    told = "; ".join(f"{bar.row.op}, {bar.row.direction}: {_numbers(bar.row)}" for bar in bars)
    return Drawing(_WIDTH, bottom + 38, "".join(body), f"Time of the parts of a step. {told}")


def _arranged(rows: Sequence[ProfileRow]) -> tuple[list[_Bar], float]:
    """The bars that are long enough to see, operations sorted by time; and where they end, in pixels."""
    by_op: dict[str, list[ProfileRow]] = {}
    for row in rows:
        if row.share >= _LEAST:
            by_op.setdefault(row.op, []).append(row)
    order = {direction: i for i, direction in enumerate(_COLOURS)}
    bars, top = [], _TOP + _GAP / 2
    for parts in sorted(by_op.values(), key=lambda parts: -sum(row.seconds for row in parts)):
        for i, row in enumerate(sorted(parts, key=lambda row: order.get(row.direction, len(order)))):
            bars.append(_Bar(row, top, opens=i == 0))
            top += _BAR
        top += _GAP
    return bars, top


def _drawn(bar: _Bar, x: Axis) -> list[str]:
    row, colour = bar.row, _COLOURS.get(bar.row.direction, "c6")
    end, foot = x.at(1e3 * row.seconds), bar.top + 12.5
    parts = [_block(f"bar rest {colour}", bar.top, end)]
    if row.bound_by:
        parts.append(_block(f"bar {colour}", bar.top, x.at(1e3 * min(row.bound_seconds, row.seconds))))
    parts.append(text(end + 6, foot, _numbers(row), "ink"))
    return [*parts, text(_LEFT - 6, foot, row.op, "ink", "end")] if bar.opens else parts


def _block(kind: str, top: float, end: float) -> str:
    return path(kind, f"M{_LEFT} {number(top)}H{number(end)}v{_BAR - 2}H{_LEFT}z")


def _numbers(row: ProfileRow) -> str:
    """Time, share, and share of the ceiling."""
    ms = 1e3 * row.seconds
    label = f"{ms:,.{2 if ms < 10 else 1 if ms < 100 else 0}f} ms · {percent(row.share)}"
    if row.bound_by is None:
        return label
    return f"{label} · {percent(row.bound_seconds / row.seconds, 0)} of its ceiling, {row.bound_by}"


def _key() -> str:
    """The names of the colours, above the bars."""
    x, parts = float(_LEFT), []
    for name, colour in _COLOURS.items():
        parts.append(text(x, 12, name, f"{colour} bold"))
        x += 14 + LETTER * len(name)
    return "".join([*parts, text(x, 12, "full colour: the least time that the nearer ceiling allows")])
