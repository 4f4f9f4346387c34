"""One panel of the training curves: the numbers of metrics.jsonl as lines, its scale, and labels at the lines' ends.

A value that is missing from a line of the file gives no point. A value that is not finite (a diverged loss, also
one of 1e99, or null in JSON) is kept as NaN, so that the picture can show a gap. If a step occurs twice, as after
resuming from an older checkpoint, the last line counts.

A curve's label is beside its last point; labels that would overlap are moved apart, in the same order from top to
bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import Style

_LABEL_HEIGHT, _SENTENCE_HEIGHT = 0.19, 0.17  # inches
_LOG_RANGE = 20.0  # values that differ by more than this factor need a log scale
_SMOOTH_FROM, _SMOOTH_PARTS = 60, 40  # logged values; fewer than 60 need no smoothing
_MARKED = 40  # logged values; more markers would overlap
#: No loss of a learning run is this large; its square would overflow while drawing.
_TOO_LARGE = 1e99


class Series(NamedTuple):
    """One measured quantity: values over steps, steps rising."""

    steps: npt.NDArray[np.float64]  # (n,)
    values: npt.NDArray[np.float64]  # (n,)  NaN where the logged value was not finite

    @property
    def finite(self) -> npt.NDArray[np.bool_]:
        """Whether each point can be drawn, (n,)."""
        return np.isfinite(self.values)

    @property
    def alone(self) -> npt.NDArray[np.intp]:
        """Indices of the points without a neighbour to draw a line to."""
        seen = np.concatenate([[False], self.finite, [False]])
        return np.flatnonzero(seen[1:-1] & ~seen[:-2] & ~seen[2:])


class Line(NamedTuple):
    """One curve to draw."""

    name: str
    data: Series
    colour: str
    write: Callable[[float], str]  # formats the value at its end
    style: str = "-"
    marker: str = ""
    smooth: bool = False


class Panel(NamedTuple):
    """One quantity with its own vertical axis."""

    title: str
    height: float  # inches
    lines: list[Line]
    reach: float = 0.0  # the vertical axis reaches at least this high
    may_be_log: bool = False
    mark: Callable[[Axes], None] | None = None  # draws more, last


def room_above(panel: Panel) -> float:
    """Height in inches of the sentences about gaps, between the panel's title and its axes."""
    return _SENTENCE_HEIGHT * len(_gap_sentences(panel.lines))


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Fill the axes, whose horizontal limits are set, with all lines of the panel."""
    ends = [(line, _draw_line(axes, line)) for line in panel.lines]
    log = panel.may_be_log and _needs_log(panel.lines)
    _set_scale(axes, panel, log)
    width = max((_smoothing(line) for line in panel.lines), default=1)
    title, pad = panel.title + (", log scale" if log else ""), 6 + 72 * room_above(panel)
    axes.set_title(title, pad=pad)
    if width > 1:
        note = f"pale: as logged · solid: mean of {width:,} values"
        axes.set_title(note, loc="right", fontsize=8, weight="normal", color=colours.FAINT_INK, pad=pad)
    name_ends(axes, [(_name(line, end), line.colour, end) for line, end in ends], panel.height)
    _tell_gaps(axes, panel.lines)
    if panel.mark:
        panel.mark(axes)
    axes.tick_params(axis="y", pad=7)  # away from a marker at the first step


def _draw_line(axes: Axes, line: Line) -> float:
    """Draw one line; returns the height of its end, NaN if it has no finite value."""
    data, width = line.data, _smoothing(line)
    if width > 1:
        axes.plot(*data, color=line.colour, linewidth=0.8, alpha=0.3)
        data = running_mean(data, width)
    few = line.marker and data.steps.size <= _MARKED
    marks = slice(None) if few else data.alone.tolist()
    style: Style = {"color": line.colour, "linestyle": line.style, "clip_on": False}
    axes.plot(*data, label=line.name, marker=line.marker or "o", markevery=marks, **style)
    heights = data.values[data.finite]
    return float(heights[-1]) if heights.size else float("nan")


def _smoothing(line: Line) -> int:
    """The number of logged values that one point of the solid line stands for; odd."""
    count = int(line.data.finite.sum())
    return 2 * (count // _SMOOTH_PARTS // 2) + 3 if line.smooth and count >= _SMOOTH_FROM else 1


def _needs_log(lines: list[Line]) -> bool:
    values = _finite(lines)
    return bool(values.size and values.min() > 0 and values.max() > _LOG_RANGE * values.min())


def _finite(lines: list[Line]) -> npt.NDArray[np.float64]:
    return np.concatenate([line.data.values[line.data.finite] for line in lines])


def _set_scale(axes: Axes, panel: Panel, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        lowest, highest = np.log10(axes.get_ylim())
        room = max(3, int(panel.height / _LABEL_HEIGHT))  # for so many steps from number to number
        subs = (1.0, 2.0, 5.0) if 3 * (highest - lowest) <= room else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=room + 1))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif not _finite(panel.lines).size:
        axes.yaxis.set_major_locator(FixedLocator([]))
    else:
        bins = max(3, round(2 * panel.height))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10]))
        values = _finite(panel.lines)
        if values.min() >= 0:
            axes.set_ylim(0.0, max(panel.reach, values.max() * (1.0 if panel.reach else 1.05)) or 1.0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _name(line: Line, end: float) -> str:
    """The label at the end of a line: its name, its value, and a cross if it diverged."""
    return f"{line.name} {line.write(end)}" + ("" if line.data.finite[-1] else " → ×")


def name_ends(axes: Axes, ends: list[tuple[str, str, float]], inches: float, x: float = 1.015) -> None:
    """Write labels, each (text, colour, height of its line's end), to the right of axes of this height in inches.

    x is their position, as a fraction of the axes. A line whose end is NaN gets no label here.
    """
    named = [end for end in ends if np.isfinite(end[2])]
    to_fraction = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_fraction.transform((axes.get_xlim()[1], end))[1]) for _, _, end in named]
    for (text, colour, _), y in zip(named, spread(wanted, _LABEL_HEIGHT / inches), strict=True):
        axes.text(x, y, text, color=colour, fontsize=9, va="center", clip_on=False, transform=axes.transAxes)


def spread(heights: list[float], gap: float) -> list[float]:
    """The heights, moved apart to leave a gap between any two; order kept, the first of equals on top."""
    order = sorted(range(len(heights)), key=lambda index: (heights[index], -index))
    placed = list(heights)
    for low, high in pairwise(order):
        placed[high] = max(placed[high], placed[low] + gap)
    shift = sum(placed) - sum(heights)
    return [height - shift / len(placed) for height in placed]


def _gap_sentences(lines: list[Line]) -> list[str]:
    sentences = []
    for line in lines:
        lost = line.data.steps[~line.data.finite]
        if lost.size:
            count = f"{lost.size:,} of {line.data.steps.size:,} values"
            sentences.append(f"× {line.name}: {count} not finite, first at step {lost[0]:,.0f}")
    return sentences


def _tell_gaps(axes: Axes, lines: list[Line]) -> None:
    """A sentence per line with gaps, and a cross on the step axis for every missing value."""
    style: Style = {"color": colours.WARNING, "fontsize": 8.5, "va": "bottom", "linespacing": 1.25}
    above: Style = {"xycoords": "axes fraction", "xytext": (0, 5), "textcoords": "offset points"}
    axes.annotate("\n".join(_gap_sentences(lines)), (0, 1), **above, **style)
    lost = np.concatenate([line.data.steps[~line.data.finite] for line in lines])
    below: Style = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5}
    mark: Style = {"marker": "x", "markersize": 5, "linestyle": "", "color": colours.WARNING}
    axes.plot(lost, np.zeros(lost.size), label="not finite", **mark, **below)


def plain(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:.3g}"


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
    values = np.array([points[step] for step in steps], dtype=np.float64)
    values[~(np.abs(values) < _TOO_LARGE)] = np.nan
    return Series(np.array(steps, dtype=np.float64), values)


def running_mean(line: Series, width: int) -> Series:
    """Each value replaced by the mean of the finite values at most width // 2 places away; gaps stay."""
    window = np.ones(2 * (width // 2) + 1)
    inside = slice(width // 2, width // 2 + line.values.size)
    total = np.convolve(np.nan_to_num(line.values), window)[inside]
    count = np.convolve(line.finite.astype(np.float64), window)[inside]
    return Series(line.steps, np.where(line.finite, total / np.maximum(count, 1), np.nan))


def _number(value: Any, number: int, field: str) -> float:
    if value is None and field != "step":
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"metrics, line {number}: expected a number for {field}, got {value!r}; mend the file")
    return float(value)
