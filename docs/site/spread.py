"""How far a bug's difference spreads: a column for each call of an operation, in the order of time."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 640, 180
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 22, 26
#: The smallest power of ten that is drawn; smaller differences are as high.
_LOWEST = -6
_POWERS = {-6: "10⁻⁶", -3: "10⁻³", 0: "1", 3: "10³"}


class Step(NamedTuple):
    """One call of an operation, in forward or in backward."""

    name: str
    way: str  # "forward" or "backward"
    size: float  # the largest relative difference of what it returns; 0: none; ∞ or NaN: no number, or it did not run
    first: bool = False  # here the difference begins


def drawn(steps: Sequence[Step]) -> str:
    """The columns as an <svg>; their height is the size, on a logarithmic scale."""
    sizes = [step.size for step in steps if math.isfinite(step.size)]
    top = max(0, min(3, math.ceil(math.log10(max([*sizes, 1e-9])))))
    lines = "".join(
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(power, top):.1f}" y2="{_y(power, top):.1f}"/>'
        f'<text class="tick end" x="{LEFT - 6}" y="{_y(power, top) + 4:.1f}">{said}</text>'
        for power, said in _POWERS.items()
        if power <= top
    )
    width = (WIDTH - LEFT - RIGHT) / len(steps)
    columns = "".join(_column(step, LEFT + i * width, width, top) for i, step in enumerate(steps))
    turn = sum(step.way == "forward" for step in steps)
    names = "".join(
        f'<text class="{way} middle" x="{LEFT + (start + end) / 2 * width:.1f}" y="{HEIGHT - 6}">{way}</text>'
        for way, start, end in (("forward", 0, turn), ("backward", turn, len(steps)))
        if end > start
    )
    differing = sum(step.size != 0 for step in steps)
    said = f"{differing} of {len(steps)} calls of operations return other numbers"
    return (
        f'<svg class="curves spread" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}">'
        f"{lines}{columns}{names}</svg>"
    )


def _y(power: float, top: int) -> float:
    """Where a power of ten is; the lowest stands a little above the ground, so that it is seen."""
    share = (min(max(power, _LOWEST), top) - _LOWEST + 0.4) / (top - _LOWEST + 0.4)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _column(step: Step, x: float, width: float, top: int) -> str:
    ground = HEIGHT - BOTTOM
    y = ground - 1.0
    if step.size:
        y = _y(math.log10(step.size), top) if math.isfinite(step.size) else TOP
    look = step.way if step.size else "none"
    title = html.escape(f"{step.name}, {step.way}: {said(step.size)}")
    mark = ""
    if step.first:
        middle = x + width / 2
        mark = f'<path class="first" d="M{middle - 5:.1f} {y - 12:.1f}h10l-5 8z"/>'
    return (
        f'<rect class="{look}" x="{x + 0.1 * width:.1f}" y="{y:.1f}" width="{0.8 * width:.1f}" '
        f'height="{ground - y:.1f}"><title>{title}</title></rect>{mark}'
    )


def said(size: float) -> str:
    """A relative difference in words."""
    if not math.isfinite(size):
        return "not a number" if math.isnan(size) else "did not run, or infinite"
    if size == 0:
        return "the same"
    if size < 1e-4:
        return f"{size:.0e}".replace("-", "−")
    if size >= 10:
        return f"{size:.0f} times" if size < 1e6 else f"{size:.0e} times".replace("+", "")
    return f"{100 * size:.0f} %" if size >= 0.0995 else f"{100 * size:.1g} %"
