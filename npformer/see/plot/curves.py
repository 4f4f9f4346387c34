"""Training curves of runs: loss, held-out measures, learning rate, and the norm of the gradient.

``draw_comparison`` shows the losses of two runs that differ in a bug and in nothing else, ``draw_sweep`` the V of a
gradient check: the error of central differences against the step size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import DataError
from npformer.see.plot.charts import Chart, Curve, draw_charts, in_percent, series, short
from npformer.see.plot.svg import check_place

TITLE = "Training curves"
_LOSS = "Loss, nats per token"
_NAMED = 8  # curves of a sweep that are drawn, as many as there are colours
#: The shares between 0 and 1 that an evaluation may log, and their names.
_SHARES = (("token_accuracy", "tokens"), ("exact_match", "exact match"), ("accuracy", "accuracy"))


class RunCourse(NamedTuple):
    """What is drawn of a run."""

    name: str
    metrics: Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl
    warmup: int = 0  # the steps in which the rate rises
    clip_norm: float | None = None  # the longest gradient that is not scaled
    planned: tuple[Sequence[float], Sequence[float]] = ((), ())  # steps, and the rates that the options give


def draw_curves(
    metrics: Sequence[Mapping[str, Any]],
    path: Path,
    title: str = TITLE,
    warmup: int = 0,
    clip_norm: float | None = None,
) -> None:
    """Write an SVG of a run's course; metrics are the lines of its metrics.jsonl.

    Lines have "kind" "train" (step, loss in nats per token, learning_rate, grad_norm) or "eval" (step, loss,
    token_accuracy and exact_match between 0 and 1); other kinds and fields are ignored. title names the task and the
    run. warmup: the steps in which the rate rises, which are marked; clip_norm: the longest gradient that is not
    scaled. An existing picture at path is replaced.
    Raises DataError if there is nothing to draw or a value is no number, OutputError if path cannot be
    written.
    """
    check_place(path)
    charts = course_charts([RunCourse("", metrics, warmup, clip_norm)])
    if not charts:
        raise DataError(
            "metrics: expected at least one line of training or evaluation, got none; "
            "draw the curves once the run has logged a step"
        )
    draw_charts(charts, path, title, [_summary(metrics, charts)])


def course_charts(runs: Sequence[RunCourse]) -> list[Chart]:
    """The charts of these runs together, those with something in them.

    Raises DataError, naming the line, for a value that is not a number.
    """

    def curves(kind: str, *fields: tuple[str, str], colour: int = 0, dashed: bool = False) -> list[Curve]:
        curves = []
        for number, run in enumerate(runs):
            for i, (field, label) in enumerate(fields):
                data = series(run.metrics, kind, field)
                if data.steps.size:
                    named = label if len(runs) == 1 else f"{run.name}, {label}"
                    its_colour = number if len(runs) > 1 else i + colour
                    is_dashed = dashed or (len(runs) > 1 and i > 0)
                    steps, values = data.steps.tolist(), data.values.tolist()
                    curve = Curve(named, steps, values, is_dashed, its_colour, kind == "eval", logged=True)
                    curves.append(curve._replace(smooth=field == "loss"))
        return curves

    loss = [*curves("train", ("loss", "training")), *curves("eval", ("loss", "held-out"), colour=1, dashed=True)]
    plans = []
    for number, run in enumerate(runs):
        name = "as the options say" if len(runs) == 1 else f"{run.name}, as its options say"
        plans += [Curve(name, *run.planned, colour=number, faint=True)] if run.planned[0] else []
    rate, norm = curves("train", ("learning_rate", "logged")), curves("train", ("grad_norm", "whole model"), colour=3)
    bits = curves("eval", ("bits_per_character", "bits"))
    level = runs[0].clip_norm if len(runs) == 1 else None
    clipped = "" if level is None else f"clipped to {short(level)}"
    charts = [
        Chart(_LOSS, "", "", loss, log_y=None),
        Chart("Held-out accuracy", "", "", curves("eval", *_SHARES, colour=2), write=in_percent, top=1.0),
        Chart("Bits per character, held-out", "", "", bits),
        Chart("Learning rate", "", "", [*plans, *rate], marks=_warmups(runs)),
        Chart(f"Gradient norm, {clipped or 'before clipping'}", "", "", norm, log_y=None, level=level),
    ]
    return [chart for chart in charts if chart.curves]


def _warmups(runs: Sequence[RunCourse]) -> list[tuple[float, str]]:
    """Where each warm-up ends, once if it is the same in all."""
    last = [max((line.get("step", 0) for line in run.metrics), default=0) for run in runs]
    ends = sorted({run.warmup for run, step in zip(runs, last, strict=True) if 1 < run.warmup < step})
    if len(ends) < 2:
        return [(float(step), f"warm-up ends, {step:,}") for step in ends]
    *others, latest = ends  # one text beside the last: several would lie on each other
    return [*((float(step), "") for step in others), (float(latest), f"warm-ups end, {', '.join(map(str, ends))}")]


def _summary(metrics: Sequence[Mapping[str, Any]], charts: Sequence[Chart]) -> str:
    """The line under the title: what is drawn, the run's steps and its speed."""
    speed = series(metrics, "train", "tokens_per_second").values
    fast = speed[np.isfinite(speed)]
    last = max(curve.x[-1] for chart in charts for curve in chart.curves)
    counted = f"{last:,.0f} steps" if last != 1 else "1 step"
    return f"{TITLE} · {counted}" + (f" · {np.median(fast):,.0f} tokens per second (median)" if fast.size else "")


def draw_comparison(
    right: Sequence[float], wrong: Sequence[float], path: Path, title: str, notes: Sequence[str] = ()
) -> None:
    """Write an SVG of two losses in nats per token, one value per step, NaN where a run broke down.

    notes are sentences below the title. An existing picture at path is replaced. Raises DataError if
    there is nothing to draw, OutputError if path cannot be written.
    """
    check_place(path)
    draw_charts([comparison_chart(right, wrong)], path, title, notes)


def comparison_chart(right: Sequence[float], wrong: Sequence[float]) -> Chart:
    """The losses of two runs in one chart. Raises DataError if there is nothing to draw."""
    if not len(right) or not len(wrong):
        raise DataError("losses: expected at least one step of each run, got none; train both first")
    curves = [
        Curve(name, range(1, len(losses) + 1), losses, colour=colour, smooth=True, logged=True)
        for name, losses, colour in (("wrong", wrong, 1), ("right", right, 0))
    ]
    return Chart(_LOSS, "training step", "", curves, log_y=None)


def draw_sweep(curves: Sequence[Any], path: Path) -> None:
    """Draw the error of central differences against the step size to path, a .svg, the largest lowest errors first.

    curves: each with a name, step sizes h (k,), errors (k,), and the verdict of the check (``check/curves.py``). Raises
    DataError if there are none, OutputError if path cannot be written.
    """
    check_place(path)
    if not curves:
        raise DataError("curves: expected at least one, got none; nothing to draw")
    ordered = sorted(curves, key=lambda curve: (curve.verdict == "right", -_lowest(curve)))
    notes = ["A right gradient falls as h² to a V, whose other side is rounding; a wrong one runs level."]
    rest = ordered[_NAMED:]
    if rest:
        wrong = sum(curve.verdict != "right" for curve in rest)
        lowest = f"right, lowest errors up to {max(map(_lowest, rest)):.0e}"
        notes.append(f"And {len(rest)} more, {f'{wrong} of them not right' if wrong else lowest}.")
    drawn = [
        Curve(curve.name, curve.h.tolist(), np.where(curve.error > 0, curve.error, np.nan).tolist(),
              curve.verdict != "right", dots=True, end=f"{curve.verdict}, {_lowest(curve):.0e}")
        for curve in ordered[:_NAMED]
    ]  # fmt: skip
    title = "Error of central differences against the step size"
    chart = Chart("The worst tensors, by their lowest error", "step size h", "scaled error", drawn, True, True)
    draw_charts([chart._replace(write=lambda error: f"{error:.0e}")], path, title, notes)


def _lowest(curve: Any) -> float:
    """The error at the best step size; infinite if there is no finite error."""
    return float(np.min(curve.error[np.isfinite(curve.error)], initial=np.inf))
