"""A bug's effect on training: the loss of two runs that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import add_axes, check_place, drawing, sheet, write_picture
from npformer.plotting.curves import BOTTOM, LEFT, WIDTH, count_steps
from npformer.plotting.panels import Line, Panel, draw_panel, plain, room_above
from npformer.plotting.series import Series

_RIGHT, _TOP, _PLOT = 1.5, 0.45, 2.9  # inches


def draw_comparison(
    right: Sequence[float], wrong: Sequence[float], path: Path, title: str, notes: Sequence[str] = ()
) -> None:
    """Write a PNG of two losses in nats per token, one value per step, NaN where a run broke down.

    notes are sentences below the title. An existing picture at path is replaced. Raises DataError if
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
    figure = sheet(WIDTH, _TOP + room_above(panel) + _PLOT + BOTTOM, title, notes, LEFT)
    axes = add_axes(figure, LEFT, BOTTOM, WIDTH - LEFT - _RIGHT, _PLOT)
    axes.set_xlim(0, max(len(right), len(wrong)))
    draw_panel(axes, panel)
    count_steps(axes)
    return figure


def _series(losses: Sequence[float]) -> Series:
    values = np.array(losses, dtype=np.float64)
    return Series(np.arange(1.0, values.size + 1), np.where(np.abs(values) < 1e99, values, np.nan))
