"""Training curves of a run: its loss, its held-out accuracy, and its learning rate.

Every line has its name and last value at its right end, in its own colour, so no legend is needed.
A value that cannot be drawn (a NaN or infinite loss) is shown as a gap, a cross on the step axis and a
sentence in the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import add_axes, check_place, drawing, sheet, write_picture
from npformer.plotting.panels import Line, Panel, draw_panel, percent, plain, room_above
from npformer.plotting.series import Series, series

WIDTH, LEFT, BOTTOM = 8.7, 0.75, 0.6  # inches
_RIGHT, _TOP, _BETWEEN = 1.85, 0.37, 0.5  # inches


def draw_curves(metrics: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG of a run's course; metrics are the lines of its metrics.jsonl.

    Lines have "kind" "train" (step, loss in nats per token, learning_rate) or "eval" (step, loss,
    token_accuracy and exact_match between 0 and 1); other kinds and fields are ignored. An existing
    picture at path is replaced.
    Raises DataError if there is nothing to draw or a value is no number, OutputError if path cannot be
    written.
    """
    check_place(path)
    write_picture(curves_figure(metrics), path)


@drawing()
def curves_figure(metrics: Sequence[Mapping[str, Any]]) -> Figure:
    """The picture of draw_curves as a Figure: one Axes per quantity that the run has logged."""
    panels = _panels(metrics)
    if not panels:
        raise DataError(
            "metrics: expected at least one line of training or evaluation, got none; "
            "draw the curves once the run has logged a step"
        )
    height = sum(panel.height + room_above(panel) + _BETWEEN for panel in panels) - _BETWEEN + BOTTOM
    figure = sheet(WIDTH, _TOP + height, "Training curves", [_summary(metrics, panels)], LEFT)
    limits = _steps(panels)
    for panel in panels:
        height -= room_above(panel) + panel.height
        axes = add_axes(figure, LEFT, height, WIDTH - LEFT - _RIGHT, panel.height)
        axes.set_xlim(limits)
        draw_panel(axes, panel)
        count_steps(axes, lowest=panel is panels[-1])
        height -= _BETWEEN
    return figure


def count_steps(axes: Axes, lowest: bool = True) -> None:
    """Round step numbers, only under the lowest panel, since all panels share one axis."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.tick_params(axis="x", length=3, color=colours.RULE, labelbottom=lowest)
    if lowest:
        axes.set_xlabel("training step")


def _panels(metrics: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """The panels with data, from top to bottom."""
    tokens, whole = series(metrics, "eval", "token_accuracy"), series(metrics, "eval", "exact_match")
    loss = [
        Line("training", series(metrics, "train", "loss"), colours.TRAINING, plain, smooth=True),
        Line("held-out", series(metrics, "eval", "loss"), colours.HELD_OUT, plain, marker="o"),
    ]
    accuracy = [
        Line("token accuracy", _percent(tokens), colours.TOKENS, percent, marker="o"),
        Line("exact match", _percent(whole), colours.SEQUENCES, percent, style="--", marker="s"),
        Line("accuracy", _percent(series(metrics, "eval", "accuracy")), colours.SEQUENCES, percent, marker="s"),
    ]
    rate = [Line("last", series(metrics, "train", "learning_rate"), colours.RATE, plain)]
    panels = [
        Panel("Loss (nats per token)", 2.6, loss, may_be_log=True),
        Panel("Held-out accuracy (%)", 1.9, accuracy, reach=100.0),
        Panel("Learning rate", 0.75, rate),
    ]
    seen = [panel._replace(lines=[line for line in panel.lines if line.data.steps.size]) for panel in panels]
    return [panel for panel in seen if panel.lines]


def _percent(share: Series) -> Series:
    return Series(share.steps, 100 * share.values)


def _steps(panels: list[Panel]) -> tuple[float, float]:
    """The ends of the step axis: all logged steps, from 0 if the run was logged from its start."""
    steps = np.concatenate([line.data.steps for panel in panels for line in panel.lines])
    first, last = float(steps.min()), float(steps.max())
    from_start = 0 <= first <= 0.5 * last or first == last
    return (min(first, 0.0) if from_start else first), max(last, 1.0)


def _summary(metrics: Sequence[Mapping[str, Any]], panels: list[Panel]) -> str:
    """The line under the title: the run's steps and speed."""
    speed = series(metrics, "train", "tokens_per_second")
    fast = speed.values[speed.finite]
    last = max(line.data.steps[-1] for panel in panels for line in panel.lines)
    counted = f"{last:,.0f} steps" if last != 1 else "1 step"
    return counted + (f" · {np.median(fast):,.0f} tokens per second (median)" if fast.size else "")
