"""Where a training step's time goes: a bar for each operation, with the least possible time inside it.

The forward and the backward of an operation are next to each other, the slowest operation at the top. The full
colour inside a bar is the least time that the tighter ceiling allows, so the pale rest is the possible gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from npformer.errors import DataError
from npformer.percent import percent
from npformer.plotting import colours
from npformer.plotting.canvas import Style, add_axes, check_place, drawing, sheet, write_picture

_WIDTH, _LEFT, _RIGHT, _BOTTOM = 9.6, 1.75, 0.3, 0.55  # inches
_BAR, _GAP, _KEY = 0.235, 0.13, 0.42  # height of a bar, space between operations and for the key, in inches
_ROOM = 1.68  # the axis ends at this multiple of the longest bar, since numbers are beside the bars
_INK = {"forward": colours.TRAINING, "backward": colours.HELD_OUT, "update": colours.TOKENS}
_OVER_GRID: Style = {"facecolor": "white", "linewidth": 0, "pad": 0.8}
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
    """A row and the height of its bar's upper edge, in inches below the top of the axes."""

    row: ProfileRow
    top: float
    opens: bool  # the first bar of its operation, which has the name beside it


def draw_profile(rows: Sequence[ProfileRow], path: Path, title: str, notes: Sequence[str] = ()) -> None:
    """Write a PNG of the parts of a step; notes are sentences below the title.

    An existing picture at path is replaced. Raises DataError if there is nothing to draw,
    OutputError if path cannot be written.
    """
    check_place(path)
    write_picture(profile_figure(rows, title, notes), path)


@drawing()
def profile_figure(rows: Sequence[ProfileRow], title: str, notes: Sequence[str] = ()) -> Figure:
    """The picture of draw_profile as a Figure of one Axes."""
    if not any(row.seconds > 0 for row in rows):
        raise DataError("rows: expected at least one part of a step that took time, got none; nothing to draw")
    bars, depth = _arranged(rows)
    figure = sheet(_WIDTH, _KEY + depth + _BOTTOM, title, notes, _GAP)
    axes = add_axes(figure, _LEFT, _BOTTOM, _WIDTH - _LEFT - _RIGHT, depth)
    axes.set_xlim(0, _ROOM * max(1e3 * row.seconds for row in rows))
    axes.set_ylim(depth, 0)
    for bar in bars:
        _draw(axes, bar)
    _key(axes)
    _frame(axes, len(rows) - len(bars))
    return figure


def _arranged(rows: Sequence[ProfileRow]) -> tuple[list[_Bar], float]:
    """The bars that are long enough to see, operations sorted by time; and the total height in inches."""
    by_op: dict[str, list[ProfileRow]] = {}
    for row in rows:
        if row.share >= _LEAST:
            by_op.setdefault(row.op, []).append(row)
    order = {direction: i for i, direction in enumerate(_INK)}
    bars, top = [], _GAP / 2
    for parts in sorted(by_op.values(), key=lambda parts: -sum(row.seconds for row in parts)):
        for i, row in enumerate(sorted(parts, key=lambda row: order.get(row.direction, len(order)))):
            bars.append(_Bar(row, top, opens=i == 0))
            top += _BAR
        top += _GAP
    return bars, top


def _draw(axes: Axes, bar: _Bar) -> None:
    row = bar.row
    ink = _INK.get(row.direction, colours.RATE)
    length, bound = 1e3 * row.seconds, 1e3 * min(row.bound_seconds, row.seconds)
    middle = bar.top + _BAR / 2
    pale = [1 - 0.3 * (1 - part) for part in to_rgb(ink)]  # 30 % on white, opaque: the grid does not show through
    axes.barh(middle, length, height=0.86 * _BAR, color=pale, linewidth=0)
    if row.bound_by:
        axes.barh(middle, bound, height=0.86 * _BAR, color=ink, linewidth=0)
    beside = axes.get_xlim()[1] * 0.008
    style: Style = {"va": "center", "fontsize": 8.5}
    axes.text(length + beside, middle, _numbers(row), color=colours.INK, **style, bbox=_OVER_GRID)
    if bar.opens:
        axes.text(-beside, middle, row.op, color=colours.INK, ha="right", **style)


def _numbers(row: ProfileRow) -> str:
    """Time, share, and share of the ceiling."""
    ms = 1e3 * row.seconds
    text = f"{ms:,.{2 if ms < 10 else 1 if ms < 100 else 0}f} ms · {percent(row.share)}"
    if row.bound_by is None:
        return text
    return f"{text} · {percent(row.bound_seconds / row.seconds, 0)} of its ceiling, {row.bound_by}"


def _key(axes: Axes) -> None:
    """Draw the key of the colours above the bars."""
    texts = [*_INK.items(), ("full colour: the least time that the nearer ceiling allows", colours.FAINT_INK)]
    across = axes.get_xlim()[1]
    inch = across / (_WIDTH - _LEFT - _RIGHT)
    x = 0.0
    for text, ink in texts:
        weight = "normal" if ink == colours.FAINT_INK else "bold"
        axes.text(x, -0.2, text, color=ink, fontsize=9, va="center", weight=weight)
        x += (0.25 + 0.08 * len(text)) * inch


def _frame(axes: Axes, left_out: int) -> None:
    text = "milliseconds of one step; beside a bar its share of the step"
    if left_out:
        text += f" ({left_out} below {percent(_LEAST)} left out)"
    axes.set(xlabel=text, yticks=[])
    axes.xaxis.set_major_formatter("{x:,.5g}")
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(True)
