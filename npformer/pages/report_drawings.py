"""Curves and attention as inline SVG.

Curves are lines over the training step, with their names and last values below.

A chart is drawn for a width of 360, the width of a narrow screen, and several stand side by side on a wide one. Colours
are classes of the page's style sheet, since the page is light or dark. A value that is not finite leaves a gap.

Of attention there is one map for each head, query tokens down the side and key tokens below. Cells of one strength are
one path, so a map of 40 × 40 weights has 32 paths at most. A weight of exactly 0 is hidden from the query, and has a
colour of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from npformer.pages.document import escaped
from npformer.percent import percent
from npformer.printable import visible
from npformer.training.attention_example import AttentionExample
from npformer.typing import HostArray

WIDTH, HEIGHT = 360, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 26
#: Values below this share of the largest are drawn at it on a logarithmic scale.
_LOWEST = 1e-12
#: The colours in the style sheet.
COLOURS = 8
LEVELS = 32
_SIDE, _LARGEST, _SMALLEST = 176, 16, 7  # pixels: a map that is hoped for, and a cell
_LETTER = 6.2  # pixels of a letter, of a label of 10.5
_LONGEST = 9  # letters of a label
_NUMBER = re.compile(r"\.(\d+)\.")


class Line(NamedTuple):
    """One quantity of one run."""

    label: str
    colour: int  # class c0, c1, … of the style sheet
    steps: Sequence[float]
    values: Sequence[float]
    dashed: bool = False
    dots: bool = False
    faint: bool = False  # drawn beneath, without a last value

    @property
    def classes(self) -> str:
        """Those of the style sheet."""
        return f"line c{self.colour % COLOURS}{' dashed' * self.dashed}{' faint' * self.faint}"


class Chart(NamedTuple):
    """A chart and how it is written."""

    title: str
    lines: Sequence[Line]
    number: Callable[[float], str]
    log: bool = False
    top: float | None = None  # the least value that the axis reaches
    marks: Sequence[tuple[float, str]] = ()  # a step, and what happens there


def short(value: float) -> str:
    """A number in at most three digits."""
    return f"{value:.3g}" if math.isfinite(value) else "not finite"


def in_percent(share: float) -> str:
    """A share in percent, without a last 0."""
    return percent(share).replace(".0 %", " %") if math.isfinite(share) else "not finite"


def chart_figure(chart: Chart) -> str:
    """The chart as a figure of HTML; empty if no line has a finite value."""
    lines = [line for line in chart.lines if any(map(math.isfinite, line.values))]
    if not lines:
        return ""
    shown = [line for line in lines if not line.faint]
    ends = "; ".join(f"{line.label}: {chart.number(line.values[-1])} at step {line.steps[-1]:,.0f}" for line in shown)
    keys = "".join(_key(line, chart.number) for line in lines)
    return (
        f'<figure class="chart"><figcaption>{escaped(chart.title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(f"{chart.title}. {ends}")}">'
        f'{_drawing(chart, lines)}</svg><ul class="legend">{keys}</ul></figure>'
    )


def _drawing(chart: Chart, lines: Sequence[Line]) -> str:
    steps = [step for line in lines for step in line.steps]
    values = [value for line in lines for value in line.values if math.isfinite(value)]
    low, high = _ends(values, chart)
    first, last = min(min(steps), 1.0), max(max(steps), 2.0)
    inner = HEIGHT - _TOP - _BOTTOM

    def x(step: float) -> float:
        return round(_LEFT + (step - first) / (last - first) * (WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        share = (value - low) / (high - low)
        if chart.log:
            share = math.log(max(value, low) / low) / math.log(high / low)
        return round(_TOP + (1 - share) * inner, 1)

    parts = []
    for value in _ticks(low, high, chart.log):
        parts.append(f'<path class="grid" d="M{_LEFT} {y(value)}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y(value) + 3.5}" text-anchor="end">{chart.number(value)}</text>')
    for step in _ticks(first, last, log=False):
        anchor = "end" if x(step) > WIDTH - 30 else "middle"
        parts.append(f'<text x="{x(step)}" y="{HEIGHT - 9}" text-anchor="{anchor}">{step:,.0f}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    for step, what in chart.marks:
        parts.append(f'<path class="mark" d="M{x(step)} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text class="mark" x="{x(step) + 4}" y="{HEIGHT - _BOTTOM - 6}">{escaped(what)}</text>')
    parts += [_line(line, x, y, HEIGHT - _BOTTOM) for line in sorted(lines, key=lambda line: not line.faint)]
    return "".join(parts)


def _line(line: Line, x: Callable[[float], float], y: Callable[[float], float], bottom: float) -> str:
    """The path of one line, its dots, and a cross on the axis for each value that is not finite."""
    path, dots, pen = [], [], "M"
    for step, value in zip(line.steps, line.values, strict=True):
        if not math.isfinite(value):
            pen = "M"
            dots.append(f'<path class="cross" d="M{x(step) - 3} {bottom - 3}l6 6m0 -6l-6 6"/>')
            continue
        path.append(f"{pen}{x(step)} {y(value)}")
        pen = "L"
        if line.dots or len(line.steps) == 1:
            dots.append(f'<circle cx="{x(step)}" cy="{y(value)}" r="2.6"/>')
    return f'<g class="{line.classes}"><path d="{"".join(path)}"/>{"".join(dots)}</g>'


def _key(line: Line, number: Callable[[float], str]) -> str:
    last = "" if line.faint else f" <b>{number(line.values[-1])}</b>"
    dot = '<circle cx="11" cy="5" r="2.6"/>' if line.dots else ""
    swatch = (
        f'<svg width="22" height="10" aria-hidden="true"><g class="{line.classes}"><path d="M1 5h20"/>{dot}</g></svg>'
    )
    return f"<li>{swatch}{escaped(line.label)}{last}</li>"


def _ends(values: Sequence[float], chart: Chart) -> tuple[float, float]:
    """The ends of the vertical axis."""
    high = max([*values, chart.top if chart.top is not None else -math.inf])
    if chart.log:
        positive = [value for value in values if value > high * _LOWEST] or [1.0]
        low, high = min(positive), max(high, min(positive))
        return (low / 1.15, high * 1.15) if high / low > 1.2 else (low / 2, high * 2)
    low = min(0.0, *values)
    return low, high if high > low else low + 1.0


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Round numbers between the ends, three to seven."""
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
            found = [f * 10.0**e for e in decades for f in factors if low <= f * 10.0**e <= high]
            if len(found) >= 3:
                return found[:: -(-len(found) // 7)]
    raw = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= raw * 0.999)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def attention_figures(example: AttentionExample) -> str:
    """A figure for each attention of the example, with a map for each of its heads."""
    return "".join(_figure(name, weights, example) for name, weights in example.weights.items())


def title_of(name: str) -> str:
    """A title for the name of an attention: "decoder 2 · cross-attention"."""
    number = _NUMBER.search(name)
    stack, kind = name.split(".")[0].removesuffix("s"), name.rsplit(".", 1)[-1].replace("_", "-")
    return f"{stack} {int(number[1]) + 1} · {kind}" if number else name


def _figure(name: str, weights: HostArray, example: AttentionExample) -> str:
    side = "source" if name.startswith("encoder") else "target"
    other = "source" if "cross" in name else side
    tokens = {"source": example.source, "target": example.target}
    maps = "".join(_map(head, number, tokens[side], tokens[other]) for number, head in enumerate(weights, start=1))
    reading = f"{side} tokens, down, read {other} tokens, across" if side != other else f"{side} tokens read each other"
    return (
        f'<figure class="attention"><figcaption><b>{escaped(title_of(name))}</b> <span class="quiet">{reading}</span>'
        f'</figcaption><div class="heads">{maps}</div></figure>'
    )


def _map(weights: HostArray, number: int, queries: Sequence[str], keys: Sequence[str]) -> str:
    """One head's weights (T, S)."""
    cell = min(max(_SIDE // max(len(queries), len(keys)), _SMALLEST), _LARGEST)
    rows, columns = [token_label(token) for token in queries], [token_label(token) for token in keys]
    every = math.ceil(10 / cell)
    left = round(8 + _LETTER * max(map(len, rows)))
    longest = max(map(len, columns))
    below = 16 if longest == 1 else round(8 + _LETTER * longest)
    width, height = left + cell * len(columns) + 8, 18 + cell * len(rows) + below
    drawn = [f'<text class="head" x="{left}" y="11">head {number}</text>']
    drawn.append(f'<g transform="translate({left} 18) scale({cell})">{_cells(weights)}</g>')
    frame = f'x="{left}" y="18" width="{cell * len(columns)}" height="{cell * len(rows)}"'
    drawn.append(f'<rect class="frame" {frame}/>')
    for i, label in list(enumerate(rows))[::every]:
        drawn.append(
            f'<text x="{left - 4}" y="{18 + cell * (i + 0.5) + 3.5:g}" text-anchor="end">{escaped(label)}</text>'
        )
    foot = 18 + cell * len(rows)
    for i, label in list(enumerate(columns))[::every]:
        x = left + cell * (i + 0.5)
        place = (
            f'x="{x:g}" y="{foot + 12}" text-anchor="middle"'
            if len(label) == 1
            else f'transform="translate({x + 3.5:g} {foot + 4}) rotate(-90)" text-anchor="end"'
        )
        drawn.append(f"<text {place}>{escaped(label)}</text>")
    return (
        f'<svg class="map" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escaped(_told(weights, number, queries, keys))}">{"".join(drawn)}</svg>'
    )


def _cells(weights: HostArray) -> str:
    """Unit squares, those of one strength in one path."""
    levels: dict[int, list[str]] = {}
    for i, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if math.isfinite(weight):
                level = math.ceil(weight * LEVELS - 0.5) if weight > 0 else -1
                levels.setdefault(min(level, LEVELS), []).append(f"M{j} {i}h1v1h-1z")
    return "".join(
        f'<path class="hidden" d="{"".join(squares)}"/>'
        if level < 0
        else f'<path class="weight" fill-opacity="{level / LEVELS:.3g}" d="{"".join(squares)}"/>'
        for level, squares in sorted(levels.items())
        if level
    )


def _told(weights: HostArray, number: int, queries: Sequence[str], keys: Sequence[str]) -> str:
    """The map in words: where each query looks most."""
    most = ", ".join(
        f"{token_label(query)} to {token_label(keys[int(row.argmax())])} {row.max():.2f}"
        for query, row in zip(queries, weights, strict=True)
    )
    return f"Head {number}; the largest weight of each query: {most}"


def token_label(token: str) -> str:
    """The name of a token on an axis."""
    shown = visible(token).replace(" ", "␣")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
