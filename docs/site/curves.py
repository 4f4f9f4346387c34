"""Two losses as a small drawing within a page: its colours are the theme's, its text is the page's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npformer.plotting.svg import Axis, lines, number, path, text

Losses = Sequence[float | None]

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 64, 12, 30
#: Where one loss falls this much below the other, both are drawn on a logarithmic scale.
_SPREAD = 30.0


class _Curve(NamedTuple):
    """One loss: its class, where its values are drawn, and whether it breaks off."""

    name: str
    points: list[tuple[float, float]]
    breaks: bool

    def drawn(self) -> str:
        """The part before the first loss that is no number, and a cross at its end if there is one."""
        cross = f"M{number(self.points[-1][0] - 5)} {number(self.points[-1][1] - 5)}" if self.points else ""
        broken = path(self.name, f"{cross}l10 10m0-10l-10 10") if cross and self.breaks else ""
        return path(self.name, lines(self.points)) + broken


def curves(right: Losses, wrong: Losses, span: int, title: str) -> str:
    """An <svg> of both losses; each value stands for ``span`` steps. A curve ends where its loss is no number."""
    x, y = _axes(right, wrong, span)
    drawn = _drawn(right, wrong, span)
    parts = []
    for tick in y.ticks():
        parts.append(path("rule", f"M{LEFT} {number(y.at(tick))}H{WIDTH - RIGHT}"))
        parts.append(text(LEFT - 6, y.at(tick) + 4, f"{tick:g}", "tick end"))
    last = len(right) * span
    for step in range(0, last + 1, last // 5):
        parts.append(text(x.at(step), HEIGHT - 10, f"{step}{' steps' * (step == last)}", "tick middle"))
    parts += [each.drawn() for each in drawn] + _names([each for each in drawn if each.points])
    return f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def thumbnail(right: Losses, wrong: Losses, span: int) -> str:
    """The same without numbers, for the gallery, where the text beside it says what it is."""
    drawn = "".join(each.drawn() for each in _drawn(right, wrong, span))
    box = f"{LEFT} {TOP} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM}"
    return f'<svg class="curves small" viewBox="{box}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'


def _axes(right: Losses, wrong: Losses, span: int) -> tuple[Axis, Axis]:
    seen = [x for x in (*right, *wrong) if x is not None]
    low, high = min(seen), max(seen)
    log = low > 0 and high / low > _SPREAD
    across = Axis(0, len(right) * span, LEFT, WIDTH - RIGHT)
    return across, Axis(low if log else 0.0, high or 1.0, HEIGHT - BOTTOM, TOP, log)


def _drawn(right: Losses, wrong: Losses, span: int) -> list[_Curve]:
    x, y = _axes(right, wrong, span)
    found = []
    for name, losses in (("right", right), ("wrong", wrong)):
        end = next((i for i, loss in enumerate(losses) if loss is None), len(losses))
        places = [(x.at((i + 0.5) * span), y.at(loss)) for i, loss in enumerate(losses[:end]) if loss is not None]
        found.append(_Curve(name, places, end < len(losses)))
    return found


def _names(drawn: Sequence[_Curve]) -> list[str]:
    """The names of the curves at their ends, apart from each other."""
    ends = {each.name: [each.points[-1][0] + 6, each.points[-1][1] + 4] for each in drawn}
    if len(ends) == 2:
        upper, lower = sorted(ends.values(), key=lambda end: end[1])
        if lower[1] - upper[1] < 14 and abs(lower[0] - upper[0]) < 60:
            lower[1] = min(HEIGHT - BOTTOM + 4.0, upper[1] + 15)
            upper[1] = lower[1] - 15
    return [text(x, y, name, f"name {name}") for name, (x, y) in ends.items()]
