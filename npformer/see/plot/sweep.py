"""The V of a gradient check: the error of central differences against the step size, both logarithmic.

The error of a right gradient falls with h² and rises again where rounding dominates; that of a wrong one stays level.
The curves whose lowest error is largest are numbered and named, those that are not right first; the others are pale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from npformer.errors import DataError
from npformer.see.plot.svg import (
    Axis,
    Drawing,
    Section,
    check_place,
    dots,
    lines,
    number,
    path,
    text,
    write_sheet,
)

_LOWEST, _HIGHEST = 3e-17, 1e2  # the ends of the vertical axis
_FAR, _NEAR = 2e-1, 5e-12  # the ends of the horizontal axis
_NAMED = 10  # curves that are numbered and named beside the axes
_LETTERS = 44  # characters that fit into a line of a name
_APART = 22  # pixels: the least distance of two numbers
_LEFT, _RIGHT, _BOTTOM, _WIDTH = 52, 500, 350, 800  # pixels


class VCurve(Protocol):
    """A curve: a name, step sizes h (k,), errors (k,), and the verdict of the check."""

    @property
    def name(self) -> str: ...
    @property
    def h(self) -> npt.NDArray[np.float64]: ...
    @property
    def error(self) -> npt.NDArray[np.float64]: ...
    @property
    def verdict(self) -> str: ...


def draw_sweep(curves: Sequence[VCurve], path: Path) -> None:
    """Draw the curves to path, a .svg. Raises DataError if there are none, OutputError if path cannot be written."""
    check_place(path)
    if not curves:
        raise DataError("curves: expected at least one, got none; nothing to draw")
    title = "Error of central differences against the step size"
    note = (
        "a right gradient falls as h² to a V; a wrong one runs level. Numbers: the curves with the largest lowest error"
    )
    write_sheet(path, title, [note], [Section("", "", [sweep_drawing(curves)])])


def sweep_drawing(curves: Sequence[VCurve]) -> Drawing:
    """The curves, and the names of those whose lowest error is largest."""
    x = Axis(_NEAR, _FAR, _RIGHT, _LEFT, log=True)  # h shrinks from left to right
    y = Axis(_LOWEST, _HIGHEST, _BOTTOM, 8, log=True)
    ordered = sorted(curves, key=lambda curve: (curve.verdict == "right", -_lowest(curve)))
    body = _frame(x, y)
    for kind, drawn in (("pale", ordered[_NAMED:]), ("", ordered[:_NAMED])):
        for curve in reversed(drawn):
            points = [
                (x.at(h), y.at(error)) if error >= _LOWEST and math.isfinite(error) else None  # 0, by chance: a gap
                for h, error in zip(curve.h.tolist(), curve.error.tolist(), strict=True)
            ]
            body.append(path(f"line {kind} {_colour(curve)}".replace("  ", " "), lines(points)))
            body += [path(f"line dots {_colour(curve)}", dots(points))] if not kind else []
    body += _numbered(ordered[:_NAMED], x, y)
    body += _names(ordered)
    named = "; ".join(f"{curve.name}: {_found(curve)}" for curve in ordered[:_NAMED])
    return Drawing(_WIDTH, _BOTTOM + 38, "".join(body), f"Error against step size, worst first. {named}")


def _lowest(curve: VCurve) -> float:
    """The error at the best step size; infinite if there is no finite error."""
    finite = curve.error[np.isfinite(curve.error)]
    return float(finite.min()) if finite.size else math.inf


def _colour(curve: VCurve) -> str:
    return "c0" if curve.verdict == "right" else "warn"


def _found(curve: VCurve) -> str:
    lowest = _lowest(curve)
    return f"{curve.verdict}, " + (f"lowest error {lowest:.0e}" if math.isfinite(lowest) else "no finite error")


def _frame(x: Axis, y: Axis) -> list[str]:
    """The axes, and the two slopes of the V, dotted."""
    body = []
    for value in x.ticks():
        body.append(path("frame rule", f"M{number(x.at(value))} 8V{_BOTTOM}"))
        body.append(text(x.at(value), _BOTTOM + 16, f"{value:.0e}", anchor="middle"))
    for value in y.ticks():
        body.append(path("frame rule", f"M{_LEFT} {number(y.at(value))}H{_RIGHT}"))
        body.append(text(_LEFT - 5, y.at(value) + 3.5, f"{value:.0e}", anchor="end"))
    for name, start, end, factor, power in (("h²", 1e-1, 1e-5, 0.03, 2), ("rounding/h", 1e-5, 1e-11, 1e-16, -1)):
        body.append(path("mark", lines([(x.at(h), y.at(factor * h**power)) for h in (start, end)])))
        middle = math.sqrt(start * end)
        body.append(text(x.at(middle), y.at(factor * middle**power) + 24, name))
    body.append(text(_RIGHT, _BOTTOM + 32, "step size h", anchor="end"))
    return [*body, text(_LEFT, _BOTTOM + 32, "scaled error |D(h) − analytic|")]


def _numbered(named: Sequence[VCurve], x: Axis, y: Axis) -> list[str]:
    """A number on each named curve: at its lowest point, or the nearest point beside which no other number is."""
    placed: list[tuple[float, float]] = []
    body = []
    for count, curve in enumerate(named, 1):
        points = [(h, e) for h, e in zip(curve.h, curve.error, strict=True) if np.isfinite(e) and e >= _LOWEST]
        points.sort(key=lambda point: abs(math.log(point[1]) - math.log(max(_lowest(curve), _LOWEST))))
        places = [(x.at(h), y.at(error)) for h, error in points]
        free = [place for place in places if all(math.dist(place, other) >= _APART for other in placed)]
        if places:
            placed.append((free or places)[0])
            at, height = placed[-1]
            for kind in ("bar paper", f"frame {_colour(curve)}"):
                body.append(f'<circle class="{kind}" cx="{number(at)}" cy="{number(height)}" r="7.5"/>')
            body.append(text(at, height + 3.5, count, _colour(curve), "middle"))
    return body


def _names(ordered: Sequence[VCurve]) -> list[str]:
    """In the margin on the right: number and name of each named curve, its verdict and its lowest error."""
    body, y = [], 20
    for count, curve in enumerate(ordered[:_NAMED], 1):
        name = curve.name  # its end, the tensor, is kept
        if len(name) > _LETTERS:
            name = f"{name[: _LETTERS // 4]}…{name[-_LETTERS * 3 // 4 + 1 :]}"
        body.append(text(_RIGHT + 14, y, count, f"{_colour(curve)} bold"))
        body.append(text(_RIGHT + 32, y, name, "ink") + text(_RIGHT + 32, y + 14, _found(curve), _colour(curve)))
        y += 32
    if len(ordered) > _NAMED:
        body.append(text(_RIGHT + 14, y, f"and {len(ordered) - _NAMED} more, {_kinds(ordered[_NAMED:])}"))
    return body


def _kinds(curves: Sequence[VCurve]) -> str:
    wrong = sum(curve.verdict != "right" for curve in curves)
    lowest = max(map(_lowest, curves))
    return f"{wrong} of them not right" if wrong else f"right, lowest errors up to {lowest:.0e}"
