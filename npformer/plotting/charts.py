"""Charts side by side: one for each quantity, with a line for each compared item, labelled at its end; and maps.

    Chart("time of one pass", "tokens", "ms", [Curve("full", lengths, times), …], log_x=True, log_y=True)

Labels of lines that end at the same height are moved apart, as in the training curves. Maps are square and show
cosine similarity between words, in groups, for example before and after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from npformer.errors import DataError, ShapeError
from npformer.plotting import colours
from npformer.plotting.canvas import (
    EDGE,
    Style,
    add_axes,
    as_map,
    check_place,
    colour_bar,
    drawing,
    sheet,
    write_picture,
)
from npformer.plotting.labels import label_width
from npformer.plotting.panels import name_ends

_PALETTE = (colours.TRAINING, colours.HELD_OUT, colours.TOKENS, colours.SEQUENCES, colours.RATE)
_PLOT_WIDTH, _PLOT_HEIGHT = 3.3, 2.7  # inches
_LEFT, _TITLE, _BELOW = 0.8, 0.5, 0.68  # inches around a plot
_LEAST_RANGE = 8.0  # of a logarithmic axis, top over bottom
_NAMED_TICKS = 8  # the most measured points labelled under an axis
_SIDE, _MAP_LEFT, _MAP_TOP, _MAP_BOTTOM = 3.9, 0.85, 0.55, 0.35  # inches

Matrix = npt.NDArray[np.floating]


class Curve(NamedTuple):
    """One item measured at several points; NaN where there is no value."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    colour: int | None = None  # index into the palette; None: the next one


class Chart(NamedTuple):
    """One chart, with its own axes."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


def draw_charts(charts: Sequence[Chart], path: Path, title: str, notes: Sequence[str] = ()) -> None:
    """Write a PNG of the charts from left to right; notes are sentences under the title.

    An existing picture at path is replaced. Raises DataError if there is nothing to draw, OutputError
    if path cannot be written.
    """
    check_place(path)
    write_picture(charts_figure(charts, title, notes), path)


@drawing()
def charts_figure(charts: Sequence[Chart], title: str, notes: Sequence[str] = ()) -> Figure:
    """The picture of draw_charts as a Figure, an Axes for each chart."""
    if not charts or not all(chart.curves for chart in charts):
        raise DataError("charts: expected at least one, each with a curve, got an empty one; nothing to draw")
    margins = [0.3 + 0.85 * max(label_width(curve.name, 9) for curve in chart.curves) for chart in charts]
    width = sum(_LEFT + _PLOT_WIDTH + margin for margin in margins) + EDGE
    figure = sheet(width, _TITLE + _PLOT_HEIGHT + _BELOW, title, notes)
    left = 0.0
    for chart, margin in zip(charts, margins, strict=True):
        _draw(add_axes(figure, left + _LEFT, _BELOW, _PLOT_WIDTH, _PLOT_HEIGHT), chart)
        left += _LEFT + _PLOT_WIDTH + margin
    return figure


def _draw(axes: Axes, chart: Chart) -> None:
    ends = [
        _draw_curve(axes, curve, _PALETTE[(i if curve.colour is None else curve.colour) % len(_PALETTE)])
        for i, curve in enumerate(chart.curves)
    ]
    _set_scales(axes, chart)
    axes.set_title(chart.title, pad=9)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    name_ends(axes, ends, _PLOT_HEIGHT, 1.03)


def _draw_curve(axes: Axes, curve: Curve, colour: str) -> tuple[str, str, float]:
    """Draw a curve; returns its name, its colour and the height of its end, NaN if it ends before the others."""
    y = np.array(curve.y, dtype=np.float64)
    mark = "o" if y.size <= 20 else ""
    dashes = "--" if curve.dashed else "-"
    axes.plot(curve.x, y, marker=mark, label=curve.name, color=colour, linestyle=dashes, clip_on=False)
    seen = np.flatnonzero(np.isfinite(y))
    if seen.size and seen[-1] < y.size - 1:  # its label is at its end
        end = (curve.x[seen[-1]], y[seen[-1]])
        place: Style = {"xytext": (-4, -7), "textcoords": "offset points", "ha": "right", "va": "top"}
        axes.annotate(curve.name, end, color=colour, fontsize=9, **place)
    return curve.name, colour, float(y[-1]) if y.size else float("nan")


def _set_scales(axes: Axes, chart: Chart) -> None:
    if chart.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < _LEAST_RANGE * low:  # so that noise does not fill the chart
            middle = (low * high) ** 0.5
            low, high = middle / _LEAST_RANGE**0.5, middle * _LEAST_RANGE**0.5
            axes.set_ylim(low, high)
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 10 * low else (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        lowest = [float(y) for curve in chart.curves for y in curve.y if np.isfinite(y)]
        if min(lowest, default=0.0) >= 0:
            axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("e-0", "e-"))
    places = sorted({float(x) for curve in chart.curves for x in curve.x})
    if chart.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(places) <= _NAMED_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(places))
    elif not chart.log_x:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def draw_similarity(
    maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], path: Path, title: str, note: str = ""
) -> None:
    """Write a PNG of maps (name, cosine similarities (n, n)) side by side; groups (n) names each word's group.

    Words of one group are next to each other. Raises ShapeError if a matrix is not (n, n), OutputError if path
    cannot be written.
    """
    check_place(path)
    write_picture(similarity_figure(maps, groups, title, note), path)


@drawing()
def similarity_figure(maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], title: str, note: str = "") -> Figure:
    """The picture of draw_similarity as a Figure: one Axes per map, and one for the colour bar (last)."""
    count = len(groups)
    for name, matrix in maps:
        if matrix.shape != (count, count) or count == 0:
            raise ShapeError(f"{name}: expected similarities of the {count} words in groups, got {matrix.shape}")
    width = 2 * EDGE + len(maps) * (_MAP_LEFT + _SIDE)
    figure = sheet(width, _MAP_TOP + _SIDE + _MAP_BOTTOM, title, [note])
    for i, (name, matrix) in enumerate(maps):
        axes = add_axes(figure, EDGE + _MAP_LEFT + i * (_SIDE + _MAP_LEFT), _MAP_BOTTOM, _SIDE, _SIDE)
        _draw_map(axes, matrix, groups)
        axes.set_title(name)
    bar = colour_bar(figure, width - EDGE - 1.5, figure.get_figheight() - 0.58, "≤ 0")
    bar.set_title("cosine similarity", fontsize=8, weight="normal", pad=3)
    return figure


def _draw_map(axes: Axes, matrix: Matrix, groups: Sequence[str]) -> None:
    """One map: blocks of equal groups are framed and named once."""
    axes.imshow(np.clip(matrix, 0, 1), cmap=colours.weight_ramp(), vmin=0, vmax=1, interpolation="nearest")
    sizes = [(group, len(list(members))) for group, members in groupby(groups)]
    ends = np.cumsum([size for _, size in sizes])
    starts = ends - [size for _, size in sizes]
    for edge in ends[:-1]:
        axes.axhline(edge - 0.5, color=colours.RULE, linewidth=0.5)
        axes.axvline(edge - 0.5, color=colours.RULE, linewidth=0.5)
    axes.set_yticks((starts + ends - 1) / 2, [group for group, _ in sizes], fontsize=8.5, color=colours.INK)
    axes.set_xticks([])
    as_map(axes)
