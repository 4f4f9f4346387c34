"""A bug's effect on training: the loss of two runs that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import check_place, drawing, write_picture
from npformer.plotting.curves import panels_figure
from npformer.plotting.panels import Line, Panel, plain
from npformer.plotting.series import Series


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
    panel = Panel("Training loss (nats per token)", 2.9, lines, may_be_log=True)
    return panels_figure([panel], title, notes, (0, max(len(right), len(wrong))))


def _series(losses: Sequence[float]) -> Series:
    values = np.array(losses, dtype=np.float64)
    return Series(np.arange(1.0, values.size + 1), np.where(np.abs(values) < 1e99, values, np.nan))
