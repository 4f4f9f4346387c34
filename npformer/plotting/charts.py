"""Charts side by side: one for each quantity, with a line for each compared item, labelled at its end.

    Chart("time of one pass", "tokens", "ms", [Curve("full", lengths, times), …], log_x=True, log_y=True)

Labels of lines that end at the same height are moved apart, as in the training curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import EDGE, Style, add_axes, check_place, drawing, sheet, write_picture
from npformer.plotting.labels import label_width
from npformer.plotting.panels import name_ends

_PALETTE = (colours.TRAINING, colours.HELD_OUT, colours.TOKENS, colours.SEQUENCES, colours.RATE)
_PLOT_WIDTH, _PLOT_HEIGHT = 3.3, 2.7  # inches
_LEFT, _TITLE, _BELOW = 0.8, 0.5, 0.68  # inches around a plot
_LEAST_RANGE = 8.0  # of a logarithmic axis, top over bottom
_NAMED_TICKS = 8  # the most measured points labelled under an axis


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
