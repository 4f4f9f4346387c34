"""Training curves of a run: its loss, its held-out accuracy, its learning rate, and the norm of its gradient.

``draw_comparison`` shows the losses of two runs that differ in a bug and in nothing else.

Every line has its name and last value at its right end, in its own colour, so no legend is needed.
A value that cannot be drawn (a NaN or infinite loss) is shown as a gap, a cross on the step axis and a
sentence in the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from npformer.errors import DataError
from npformer.percent import percent
from npformer.plotting import colours
from npformer.plotting.canvas import Style, add_axes, check_place, drawing, sheet, write_picture
from npformer.plotting.panels import Line, Panel, Series, draw_panel, plain, room_above, series

TITLE = "Training curves"
_WIDTH, _LEFT, _RIGHT = 8.7, 0.75, 1.85  # inches
_TOP, _BETWEEN, _BOTTOM = 0.37, 0.5, 0.6  # inches


def draw_curves(
    metrics: Sequence[Mapping[str, Any]],
    path: Path,
    title: str = TITLE,
    warmup: int = 0,
    clip_norm: float | None = None,
) -> None:
    """Write a PNG of a run's course; metrics are the lines of its metrics.jsonl.

    Lines have "kind" "train" (step, loss in nats per token, learning_rate, grad_norm) or "eval" (step, loss,
    token_accuracy and exact_match between 0 and 1); other kinds and fields are ignored. title names the task and the
    run. warmup: the steps in which the rate rises, which are marked; clip_norm: the longest gradient that is not
    scaled. An existing picture at path is replaced.
    Raises DataError if there is nothing to draw or a value is no number, OutputError if path cannot be
    written.
    """
    check_place(path)
    write_picture(curves_figure(metrics, title, warmup, clip_norm), path)


@drawing()
def curves_figure(
    metrics: Sequence[Mapping[str, Any]], title: str = TITLE, warmup: int = 0, clip_norm: float | None = None
) -> Figure:
    """The picture of draw_curves as a Figure: one Axes per quantity that the run has logged."""
    panels = _panels(metrics, warmup, clip_norm)
    if not panels:
        raise DataError(
            "metrics: expected at least one line of training or evaluation, got none; "
            "draw the curves once the run has logged a step"
        )
    return panels_figure(panels, title, [_summary(metrics, panels)], _steps(panels))


def panels_figure(panels: list[Panel], title: str, notes: Sequence[str], steps: tuple[float, float]) -> Figure:
    """Panels one below the other, over the same steps."""
    height = sum(panel.height + room_above(panel) + _BETWEEN for panel in panels) - _BETWEEN + _BOTTOM
    figure = sheet(_WIDTH, _TOP + height, title, notes, _LEFT)
    for panel in panels:
        height -= room_above(panel) + panel.height
        axes = add_axes(figure, _LEFT, height, _WIDTH - _LEFT - _RIGHT, panel.height)
        axes.set_xlim(steps)
        draw_panel(axes, panel)
        _count_steps(axes, lowest=panel is panels[-1])
        height -= _BETWEEN
    return figure


def _count_steps(axes: Axes, lowest: bool) -> None:
    """Round step numbers, only under the lowest panel, since all panels share one axis."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", length=3, color=colours.RULE, labelbottom=lowest)
    if lowest:
        axes.set_xlabel("training step")


def _panels(metrics: Sequence[Mapping[str, Any]], warmup: int, clip_norm: float | None) -> list[Panel]:
    """The panels with data, from top to bottom."""
    tokens, whole = series(metrics, "eval", "token_accuracy"), series(metrics, "eval", "exact_match")
    loss = [
        Line("training", series(metrics, "train", "loss"), colours.TRAINING, plain, smooth=True),
        Line("held-out", series(metrics, "eval", "loss"), colours.HELD_OUT, plain, marker="o"),
    ]
    accuracy = [
        Line("token accuracy", _percent(tokens), colours.TOKENS, _of_100, marker="o"),
        Line("exact match", _percent(whole), colours.SEQUENCES, _of_100, style="--", marker="s"),
        Line("accuracy", _percent(series(metrics, "eval", "accuracy")), colours.SEQUENCES, _of_100, marker="s"),
    ]
    rate = [Line("last", series(metrics, "train", "learning_rate"), colours.RATE, plain)]
    norm = [Line("last", series(metrics, "train", "grad_norm"), colours.RATE, plain)]
    clipped = "" if clip_norm is None else f", clipped to {plain(clip_norm)}"
    panels = [
        Panel("Loss (nats per token)", 2.6, loss, may_be_log=True),
        Panel("Held-out accuracy (%)", 1.9, accuracy, reach=100.0),
        Panel("Learning rate", 0.75, rate, mark=partial(_mark_warmup, warmup)),
        Panel(f"Gradient norm{clipped}", 0.75, norm, may_be_log=True, mark=partial(_mark_clipping, clip_norm)),
    ]
    seen = [panel._replace(lines=[line for line in panel.lines if line.data.steps.size]) for panel in panels]
    return [panel for panel in seen if panel.lines]


def _mark_warmup(steps: int, axes: Axes) -> None:
    """Shade the steps in which the rate rises; their name stands where the curve does not go."""
    if steps <= 1:
        return
    end = axes.get_xlim()[1]
    axes.axvspan(0, min(steps, end), color=colours.HIDDEN, alpha=0.6, linewidth=0, zorder=0)
    wide = steps > end / 2
    style: Style = {"textcoords": "offset points", "fontsize": 8, "color": colours.FAINT_INK}
    style |= {"xytext": (4, -3), "va": "top"} if wide else {"xytext": (4, 3)}
    place = (0, 1) if wide else (steps, 0)
    axes.annotate(f"warm-up to step {steps:,}", place, xycoords=("data", "axes fraction"), **style)


def _mark_clipping(norm: float | None, axes: Axes) -> None:
    """A line at the norm to which longer gradients are scaled, if it is within the axes."""
    low, high = axes.get_ylim()
    if norm is not None and low < norm < high:
        axes.axhline(norm, color=colours.WARNING, linewidth=0.8, linestyle=":", zorder=1)


def _percent(share: Series) -> Series:
    return Series(share.steps, 100 * share.values)


def _of_100(value: float) -> str:
    return percent(value / 100)


def _steps(panels: list[Panel]) -> tuple[float, float]:
    """The ends of the step axis: all logged steps, from 0 if the run was logged from its start."""
    steps = np.concatenate([line.data.steps for panel in panels for line in panel.lines])
    first, last = float(steps.min()), float(steps.max())
    from_start = 0 <= first <= 0.5 * last or first == last
    return (min(first, 0.0) if from_start else first), max(last, 1.0)


def _summary(metrics: Sequence[Mapping[str, Any]], panels: list[Panel]) -> str:
    """The line under the title: what is drawn, the run's steps and its speed."""
    speed = series(metrics, "train", "tokens_per_second")
    fast = speed.values[speed.finite]
    last = max(line.data.steps[-1] for panel in panels for line in panel.lines)
    counted = f"{last:,.0f} steps" if last != 1 else "1 step"
    return f"{TITLE} · {counted}" + (f" · {np.median(fast):,.0f} tokens per second (median)" if fast.size else "")


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
        Line("wrong", _of_losses(wrong), colours.HELD_OUT, plain, smooth=True),
        Line("right", _of_losses(right), colours.TRAINING, plain, smooth=True),
    ]
    panel = Panel("Training loss (nats per token)", 2.9, lines, may_be_log=True)
    return panels_figure([panel], title, notes, (0, max(len(right), len(wrong))))


def _of_losses(losses: Sequence[float]) -> Series:
    values = np.array(losses, dtype=np.float64)
    return Series(np.arange(1.0, values.size + 1), np.where(np.abs(values) < 1e99, values, np.nan))
