"""A bug's effect on training: the loss of two runs that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import Style, check_place, drawing, new_figure, write_picture
from npformer.plotting.panels import Line, Panel, draw_panel, plain, room_above
from npformer.plotting.series import Series

_WIDTH, _DPI = 8.7, 150.0  # inches, dots per inch
_LEFT, _RIGHT, _TOP, _BOTTOM, _PLOT = 0.75, 1.5, 0.55, 0.6, 2.9  # inches
_LINE, _COLUMNS = 0.19, 110  # height of a line of the text below the title, and its length in letters
_HEADING: Style = {"fontsize": 14, "weight": "bold", "color": colours.INK}


def draw_comparison(
    right: Sequence[float], wrong: Sequence[float], path: Path, title: str, notes: Sequence[str] = ()
) -> None:
    """Write a PNG of two losses in nats per token, one value per step, NaN where a run broke down.

    notes are sentences below the title. A picture that is at path already is replaced. Raises DataError if
    there is nothing to draw, OutputError if path cannot be written.
    """
    check_place(path)
    write_picture(comparison_figure(right, wrong, title, notes), path)


@drawing()
def comparison_figure(right: Sequence[float], wrong: Sequence[float], title: str, notes: Sequence[str] = ()) -> Figure:
    """The picture of draw_comparison as a Figure of one Axes."""
    if not len(right) or not len(wrong):
        raise DataError("losses: expected at least one step of each run, got none; train both first")
    lines = [
        Line("wrong", _series(wrong), colours.HELD_OUT, plain, smooth=True),
        Line("right", _series(right), colours.TRAINING, plain, smooth=True),
    ]
    panel = Panel("Training loss (nats per token)", _PLOT, lines, may_be_log=True)
    text = [line for note in notes for line in wrap(note, _COLUMNS)]
    above = _TOP + _LINE * len(text) + 0.45 + room_above(panel)
    height = above + _PLOT + _BOTTOM
    figure = new_figure(_WIDTH, height, _DPI)
    left = _LEFT / _WIDTH
    figure.text(left, 1 - 0.22 / height, title, va="top", **_fitted(title))
    for i, line in enumerate(text):
        place = 1 - (_TOP + _LINE * i) / height
        figure.text(left, place, line, va="top", fontsize=9, color=colours.FAINT_INK)
    axes = figure.add_axes((left, _BOTTOM / height, 1 - (_LEFT + _RIGHT) / _WIDTH, _PLOT / height))
    axes.set_xlim(0, max(len(right), len(wrong)))
    draw_panel(axes, panel)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.tick_params(axis="x", length=3, color=colours.RULE)
    axes.set_xlabel("training step", fontsize=9, color=colours.FAINT_INK)
    return figure


def _fitted(title: str) -> Style:
    """The heading, smaller if the title is long."""
    return _HEADING | {"fontsize": min(14.0, 14.0 * 72 / max(72, len(title)))}


def _series(losses: Sequence[float]) -> Series:
    values = np.array(losses, dtype=np.float64)
    return Series(np.arange(1.0, values.size + 1), np.where(np.abs(values) < 1e99, values, np.nan))
