"""Two losses as a small drawing within a page: its colours are the theme's, its text is the page's."""

from __future__ import annotations

import math
from collections.abc import Sequence

Losses = Sequence[float | None]

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 64, 12, 30
#: Where one loss falls this much below the other, both are drawn on a logarithmic scale.
_SPREAD = 30.0


def curves(right: Losses, wrong: Losses, span: int, title: str) -> str:
    """An <svg> of both losses; each value stands for ``span`` steps. A curve ends where its loss is no number."""
    seen = [x for x in (*right, *wrong) if x is not None]
    scale = Scale(min(seen), max(seen), len(right) * span)
    parts = [scale.axes(), _line(right, "right", scale, span), _line(wrong, "wrong", scale, span)]
    parts += _labels(right, wrong, scale, span)
    return f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def thumbnail(right: Losses, wrong: Losses, span: int) -> str:
    """The same without numbers, for the gallery, where the text beside it says what it is."""
    seen = [x for x in (*right, *wrong) if x is not None]
    scale = Scale(min(seen), max(seen), len(right) * span)
    lines = _line(right, "right", scale, span) + _line(wrong, "wrong", scale, span)
    box = f"{LEFT} {TOP} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM}"
    return f'<svg class="curves small" viewBox="{box}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>'


class Scale:
    """From steps and losses to the drawing."""

    def __init__(self, low: float, high: float, steps: int) -> None:
        self.is_log = low > 0 and high / low > _SPREAD
        self.low, self.high = (math.log10(low), math.log10(high)) if self.is_log else (0.0, high)
        self.steps = steps

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, loss: float) -> float:
        value = math.log10(loss) if self.is_log else loss
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(1.0, max(0.0, share))

    def ticks(self) -> list[float]:
        """Round losses at which a line is drawn."""
        if self.is_log:
            return [10.0**i for i in range(math.ceil(self.low), math.floor(self.high) + 1)]
        step = 10 ** math.floor(math.log10(self.high / 2))
        step *= next(m for m in (1, 2, 5, 10) if self.high / (m * step) <= 5)
        return [i * step for i in range(int(self.high / step) + 1)]

    def unit(self, step: int) -> str:
        """What is said beside the last number."""
        return " steps" if step == self.steps else ""

    def axes(self) -> str:
        """Lines and numbers of the losses, numbers of the steps."""
        lines = "".join(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(t):.1f}" y2="{self.y(t):.1f}"/>'
            f'<text class="tick end" x="{LEFT - 6}" y="{self.y(t) + 4:.1f}">{t:g}</text>'
            for t in self.ticks()
        )
        steps = "".join(
            f'<text class="tick middle" x="{self.x(s):.1f}" y="{HEIGHT - 10}">{s}{self.unit(s)}</text>'
            for s in range(0, self.steps + 1, self.steps // 5)
        )
        return lines + steps


def _line(losses: Losses, name: str, scale: Scale, span: int) -> str:
    """The part of a curve before the first loss that is no number."""
    end = next((i for i, loss in enumerate(losses) if loss is None), len(losses))
    points = " ".join(
        f"{scale.x((i + 0.5) * span):.1f},{scale.y(loss):.1f}"
        for i, loss in enumerate(losses[:end])
        if loss is not None
    )
    cross = ""
    if end < len(losses) and end:
        x, y = scale.x((end - 0.5) * span), scale.y(losses[end - 1] or 0.0)
        cross = f'<path class="{name}" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'
    return f'<polyline class="{name}" points="{points}"/>{cross}'


def _labels(right: Losses, wrong: Losses, scale: Scale, span: int) -> list[str]:
    """The names of the curves at their ends, apart from each other."""
    ends = {}
    for name, losses in (("right", right), ("wrong", wrong)):
        last = [(i, x) for i, x in enumerate(losses) if x is not None]
        if last:
            ends[name] = [scale.x((last[-1][0] + 0.5) * span) + 6, scale.y(last[-1][1]) + 4]
    if (
        len(ends) == 2
        and abs(ends["right"][1] - ends["wrong"][1]) < 14
        and abs(ends["right"][0] - ends["wrong"][0]) < 60
    ):
        lower = max(ends, key=lambda name: ends[name][1])
        upper = "right" if lower == "wrong" else "wrong"
        ends[lower][1] = min(HEIGHT - BOTTOM + 4.0, ends[upper][1] + 15)
        ends[upper][1] = ends[lower][1] - 15
    return [f'<text class="name {name}" x="{x:.1f}" y="{y:.1f}">{name}</text>' for name, (x, y) in ends.items()]
