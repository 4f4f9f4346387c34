"""Charts: lines over an axis, with their names and last values below.

    Chart("time of one pass", "tokens", "ms", [Curve("full", lengths, times), …], log_x=True, log_y=True)

A chart is drawn for a width of 360, the width of a narrow screen. A value that is not finite leaves a gap; one that was
lost, as in a run that diverged, has a cross on the axis and a sentence.

The numbers of metrics.jsonl become series over the training step. A value that is missing from a line of the file gives
no point. A value that is not finite (a diverged loss, also one of 1e99, or null in JSON) is kept as NaN, so that the
picture can show a gap. If a step occurs twice, as after resuming from an older checkpoint, the last line counts.

A run's course is its loss, held-out measures, learning rate, and the norm of the gradient. ``draw_comparison`` shows
the losses of two runs that differ in a bug and in nothing else, ``draw_sweep`` the V of a gradient check: the error of
central differences against the step size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npformer.errors import DataError
from npformer.io.percent import percent
from npformer.io.printable import escaped
from npformer.see.plot.svg import (
    LETTER,
    LINES,
    Axis,
    Drawing,
    Point,
    Section,
    check_place,
    dots,
    lines,
    number,
    one_line,
    path,
    text,
    write_sheet,
)

#: No loss of a learning run is this large; its square would overflow.
_TOO_LARGE = 1e99
WIDTH = 360
_LEFT, _RIGHT, _PLOT, _ROW = 48, 12, 170, 15  # pixels
_TITLE = 48  # letters
#: Values below this share of the largest are drawn at it on a logarithmic axis; a range that asks for such an axis.
_LOWEST, _LOG_RANGE = 1e-30, 20.0
_SMOOTH_FROM, _SMOOTH_PARTS = 60, 40  # values; fewer than 60 need no smoothing
_FEW, _DOTTED = 20, 40  # values with a dot each; more would overlap
_NAMED_TICKS = 8  # the most measured points labelled under a logarithmic axis
TITLE = "Training curves"
_LOSS = "Loss, nats per token"
_NAMED = 8  # curves of a sweep that are drawn, as many as there are colours
#: The shares between 0 and 1 that an evaluation may log, and their names.
_SHARES = (("token_accuracy", "tokens"), ("exact_match", "exact match"), ("accuracy", "accuracy"))


class Series(NamedTuple):
    """One measured quantity: values over steps, steps rising."""

    steps: npt.NDArray[np.float64]  # (n,)
    values: npt.NDArray[np.float64]  # (n,)  NaN where the logged value was not finite


def of_values(steps: Sequence[float], values: Sequence[float]) -> Series:
    """Steps and values as a series; values that are not finite, or too large, are NaN."""
    array = np.array(values, dtype=np.float64)
    return Series(np.array(steps, dtype=np.float64), np.where(np.abs(array) < _TOO_LARGE, array, np.nan))


def series(metrics: Sequence[Mapping[str, Any]], kind: str, field: str) -> Series:
    """The field of all lines of this kind. Raises DataError, naming the line, for a value that is not a number."""
    points: dict[float, float] = {}
    for count, line in enumerate(metrics, start=1):
        if line.get("kind") == kind and field in line:
            step = _number(line.get("step"), count, "step")
            if not np.isfinite(step):
                raise DataError(f"metrics, line {count}: expected a finite step, got {step}; mend the file")
            points[step] = _number(line[field], count, field)
    steps = sorted(points)
    return of_values(steps, [points[step] for step in steps])


def running_mean(line: Series, width: int) -> Series:
    """Each value replaced by the mean of the finite values at most width // 2 places away; gaps stay."""
    window = np.ones(2 * (width // 2) + 1)
    inside = slice(width // 2, width // 2 + line.values.size)
    finite = np.isfinite(line.values)
    total = np.convolve(np.nan_to_num(line.values), window)[inside]
    count = np.convolve(finite.astype(np.float64), window)[inside]
    return Series(line.steps, np.where(finite, total / np.maximum(count, 1), np.nan))


def _number(value: Any, line: int, field: str) -> float:
    if value is None and field != "step":
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"metrics, line {line}: expected a number for {field}, got {value!r}; mend the file")
    return float(value)


class Curve(NamedTuple):
    """One item measured at several points; NaN where there is no value."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    colour: int | None = None  # index into the palette; None: the next one
    dots: bool = False  # though there are many points
    faint: bool = False  # drawn beneath, without a last value
    smooth: bool = False  # many values are drawn pale, and their running mean over them
    logged: bool = False  # a value that is not finite was lost, and is told
    end: str = ""  # told beside the name in place of the last value


def short(value: float) -> str:
    """A number in three digits; thousands in full."""
    if not math.isfinite(value):
        return "not finite"
    shown = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    return shown.replace("e-0", "e-").replace("e+0", "e")


def in_percent(share: float) -> str:
    """A share in percent, without a last 0."""
    return percent(share).replace(".0 %", " %") if math.isfinite(share) else "not finite"


class Chart(NamedTuple):
    """One chart, with its own axes."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool | None = False  # None: if the range asks for it
    write: Callable[[float], str] = short
    top: float = -math.inf  # the least value that the axis reaches
    marks: Sequence[tuple[float, str]] = ()  # a place, and what happens there
    level: float | None = None  # a dotted line, if it is within the axes


class _Line(NamedTuple):
    """A curve as it is drawn."""

    curve: Curve
    colour: str
    data: Series


def draw_charts(charts: Sequence[Chart], path: Path, title: str, notes: Sequence[str] = ()) -> None:
    """Write an SVG of the charts, two beside each other; notes are sentences under the title.

    An existing picture at path is replaced. Raises DataError if there is nothing to draw, OutputError
    if path cannot be written.
    """
    check_place(path)
    if not charts or not all(chart.curves for chart in charts):
        raise DataError("charts: expected at least one, each with a curve, got an empty one; nothing to draw")
    drawn = [chart_drawing(chart) for chart in charts]
    write_sheet(path, title, notes, [Section("", "", drawn[i : i + 2]) for i in range(0, len(drawn), 2)])


def chart_drawing(chart: Chart) -> Drawing:
    """A chart of at least one curve."""
    drawn = [
        _Line(curve, f"c{(i if curve.colour is None else curve.colour) % LINES}", of_values(curve.x, curve.y))
        for i, curve in enumerate(chart.curves)
    ]
    values = np.concatenate([line.data.values[np.isfinite(line.data.values)] for line in drawn])
    log = bool(values.size and values.min() > 0 and values.max() > _LOG_RANGE * values.min())
    log = log if chart.log_y is None else chart.log_y
    y_label = ", ".join(filter(None, (chart.y_label, "log scale" * log)))
    top = 26.0 + _ROW * bool(y_label)
    bottom = top + _PLOT
    y = Axis(*_ends(values, chart, log), bottom, top, log)
    places = [float(x) for line in drawn for x in line.data.steps]
    x = Axis(*_widened(min(places), max(places), chart.log_x), _LEFT, WIDTH - _RIGHT, chart.log_x)
    parts = [text(0, 12, one_line(chart.title, _TITLE), "ink bold title")]
    parts += [text(0, 12 + _ROW, y_label)] if y_label else []
    for value in y.ticks() if values.size else ():
        parts.append(path("frame rule", f"M{_LEFT} {number(y.at(value))}H{WIDTH - _RIGHT}"))
        parts.append(text(_LEFT - 5, y.at(value) + 3.5, chart.write(value), anchor="end"))
    parts += [path("frame", f"M{_LEFT} {number(bottom)}H{WIDTH - _RIGHT}"), *_steps(x, bottom + 16, places)]
    for place, what in chart.marks:
        near = x.at(place) > WIDTH / 2
        parts.append(path("mark", f"M{number(x.at(place))} {number(top)}V{number(bottom)}"))
        parts.append(text(x.at(place) - 4 if near else x.at(place) + 4, bottom - 6, what, anchor="end" * near))
    if chart.level is not None and y.low < chart.level < y.high:
        parts.append(path("mark warn", f"M{_LEFT} {number(y.at(chart.level))}H{WIDTH - _RIGHT}"))
    for line in sorted(drawn, key=lambda line: not line.curve.faint):
        parts += _drawn(line, x, y)
    if chart.x_label:
        bottom += _ROW
        parts.append(text(WIDTH - _RIGHT, bottom + 16, chart.x_label, anchor="end"))
    height, below = _below(chart, drawn, bottom + 16)
    last = (f"{chart.write(_last(line))} at {chart.x_label or 'step'} {line.data.steps[-1]:,.10g}" for line in drawn)
    ends = "; ".join(
        f"{line.curve.name}: {line.curve.end or end}"
        for line, end in zip(drawn, last, strict=True)
        if line.curve.end or not _is_without_end(line)
    )
    return Drawing(WIDTH, height, "".join([*parts, *below]), f"{chart.title}. {ends}")


def _widened(low: float, high: float, log: bool) -> tuple[float, float]:
    """The ends of the horizontal axis: from 0 on, unless much would be left empty, as by a run that was continued."""
    low = 0.0 if not log and (0 <= low <= high / 2 or low == high > 0) else low
    return (low, high) if high > low else (low, low * 2 if log else low + 1)


def _ends(values: npt.NDArray[np.float64], chart: Chart, log: bool) -> tuple[float, float]:
    """The ends of the vertical axis."""
    high = max([*values.tolist(), chart.top, -math.inf if values.size else 1.0])
    if log:
        positive = values[values > max(high * _LOWEST, 0.0)]
        low = float(positive.min()) if positive.size else 1.0
        high = max(high, low)
        return (low / 1.15, high * 1.15) if high / low > 8 else (low / 2, high * 2)
    low = min([0.0, *values.tolist()])
    return low, high if high > low else low + 1.0


def _steps(x: Axis, height: float, places: Sequence[float]) -> Iterator[str]:
    """The numbers under the horizontal axis, none over the one before."""
    measured = sorted(set(places))
    free = 0.0
    for value in measured if x.log and len(measured) <= _NAMED_TICKS else x.ticks():
        label = f"{value:,.10g}"
        half = len(label) * LETTER / 2
        middle = min(x.at(value), WIDTH - half)
        if middle - half >= free:
            free = middle + half + LETTER
            yield text(middle, height, label, anchor="middle")


def _smoothing(line: _Line) -> int:
    """The number of values that one point of the solid line stands for; odd."""
    count = int(np.isfinite(line.data.values).sum())
    return 2 * (count // _SMOOTH_PARTS // 2) + 3 if line.curve.smooth and count >= _SMOOTH_FROM else 1


def _drawn(line: _Line, x: Axis, y: Axis) -> Iterator[str]:
    """The path of one line, its dots, and a cross on the axis for each value that is not finite."""

    def points(data: Series) -> list[Point]:
        pairs = zip(data.steps.tolist(), data.values.tolist(), strict=True)
        return [(x.at(place), y.at(value)) if math.isfinite(value) else None for place, value in pairs]

    places, width = points(line.data), _smoothing(line)
    if width > 1:
        yield path(f"line pale {line.colour}", lines(places))
        mean = running_mean(line.data, width)
        kept = sorted({*range(0, mean.steps.size, width // 3), mean.steps.size - 1, *_beside_gaps(places)})
        yield path(_kind(line), lines(points(Series(mean.steps[kept], mean.values[kept]))))
    else:
        yield path(_kind(line), lines(places))
    few = _is_dotted(line)
    alone = [p for i, p in enumerate(places) if few or not any((places[i - 1 : i] or [None]) + places[i + 1 : i + 2])]
    yield path(f"line dots {line.colour}", dots(alone))
    lost = (x.at(place) for place, point in zip(line.data.steps.tolist(), places, strict=True) if point is None)
    apart = {round(at / 8): at for at in lost if line.curve.logged}  # more crosses would overlap
    yield path("line warn", "".join(f"M{number(at - 3)} {number(y.start - 3)}l6 6m0-6l-6 6" for at in apart.values()))


def _beside_gaps(points: Sequence[Point]) -> Iterator[int]:
    """The gaps, and the points beside them."""
    for i, point in enumerate(points):
        if point is None:
            yield from {max(i - 1, 0), i, min(i + 1, len(points) - 1)}


def _is_dotted(line: _Line) -> bool:
    return not line.curve.faint and len(line.curve.x) <= (_DOTTED if line.curve.dots else _FEW)


def _kind(line: _Line) -> str:
    return f"line {line.colour}{' dashed' * line.curve.dashed}{' faint' * line.curve.faint}"


def _last(line: _Line) -> float:
    return float(line.data.values[-1])


def _is_without_end(line: _Line) -> bool:
    return line.curve.faint or not (line.curve.logged or math.isfinite(_last(line)))


def _below(chart: Chart, lines: Sequence[_Line], y: float) -> tuple[float, list[str]]:
    """The names and last values of the lines, and sentences on what is not drawn; and where they end."""
    parts, x, y = [], 0.0, y + _ROW + 3
    for line in lines:
        value = line.curve.end or ("" if _is_without_end(line) else chart.write(_last(line)))
        name = one_line(line.curve.name, max(8, int((WIDTH - 34) / LETTER) - len(value)))
        wide = 44 + LETTER * (len(name) + len(value))
        if x and x + wide > WIDTH + 16:
            x, y = 0.0, y + _ROW
        swatch = path(_kind(line), f"M{number(x)} {number(y - 4)}h22")
        spot = path(f"line dots {line.colour}", dots([(x + 11, y - 4)])) if _is_dotted(line) else ""
        bold = f' <tspan class="ink bold">{escaped(value)}</tspan>' if value else ""
        parts.append(f"{swatch}{spot}{text(x + 27, y, name, more=bold)}")
        x += wide
    for line in lines:
        lost = line.data.steps[~np.isfinite(line.data.values)]
        if lost.size and line.curve.logged:
            y += _ROW
            count = f"{lost.size:,} of {line.data.steps.size:,} values not finite, first at {lost[0]:,.10g}"
            parts.append(text(0, y, f"× {one_line(line.curve.name, 14)}: {count}", "warn"))
    width = max(map(_smoothing, lines))
    if width > 1:
        y += _ROW
        parts.append(text(0, y, f"pale: as logged; solid: the mean of {width:,} values"))
    return y + 6, parts


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
        for which, run in enumerate(runs):
            for i, (field, label) in enumerate(fields):
                data = series(run.metrics, kind, field)
                if data.steps.size:
                    named = label if len(runs) == 1 else f"{run.name}, {label}"
                    its_colour = which if len(runs) > 1 else i + colour
                    is_dashed = dashed or (len(runs) > 1 and i > 0)
                    steps, values = data.steps.tolist(), data.values.tolist()
                    curve = Curve(named, steps, values, is_dashed, its_colour, kind == "eval", logged=True)
                    curves.append(curve._replace(smooth=field == "loss"))
        return curves

    loss = [*curves("train", ("loss", "training")), *curves("eval", ("loss", "held-out"), colour=1, dashed=True)]
    plans = []
    for which, run in enumerate(runs):
        name = "as the options say" if len(runs) == 1 else f"{run.name}, as its options say"
        plans += [Curve(name, *run.planned, colour=which, faint=True)] if run.planned[0] else []
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
