"""The V of a gradient check: the error of central differences against the step size, both logarithmic.

The error of a right gradient falls with h² and rises again where rounding dominates; that of a wrong one stays level.
The curves whose lowest error is largest are numbered and named, those that are not right first; the others are pale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import Style, add_axes, check_place, drawing, sheet, write_picture

_LOWEST = 3e-17  # the vertical axis ends here
_NAMED = 10  # curves that are numbered and named beside the axes
_LETTERS = 44  # characters that fit into a line of a name
_APART = 0.045  # of the axes' width: the least distance of two numbers
_WIDTH, _HEIGHT = 6.4, 4.5  # inches, of the axes
_FAR, _NEAR = 2e-1, 5e-12  # the ends of the horizontal axis


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


class _Place(NamedTuple):
    """A point of the axes, as fractions of their width and height."""

    x: float
    y: float


def draw_sweep(curves: Sequence[VCurve], path: Path) -> None:
    """Draw the curves to path, a .png. Raises DataError if there are none, OutputError if path cannot be written."""
    check_place(path)
    if not curves:
        raise DataError("curves: expected at least one, got none; nothing to draw")
    write_picture(sweep_figure(curves), path)


@drawing()
def sweep_figure(curves: Sequence[VCurve]) -> Figure:
    """The picture of ``draw_sweep``."""
    title = "Error of central differences against the step size"
    note = (
        "a right gradient falls as h² to a V; a wrong one runs level. Numbers: the curves with the largest lowest error"
    )
    figure = sheet(11.0, 5.27, title, [note])
    axes = add_axes(figure, 0.9, 0.65, _WIDTH, _HEIGHT)
    ordered = sorted(curves, key=lambda curve: (curve.verdict == "right", -_lowest(curve)))
    for curve in reversed(ordered[_NAMED:]):
        _draw(axes, curve, 1.0, 0.3)
    for curve in reversed(ordered[:_NAMED]):
        _draw(axes, curve, 1.5, 0.9)
    _guide(axes)
    _frame(axes)
    _number(axes, ordered[:_NAMED])
    _name(axes, ordered)
    return figure


def _lowest(curve: VCurve) -> float:
    """The error at the best step size; infinite if there is no finite error."""
    finite = curve.error[np.isfinite(curve.error)]
    return float(finite.min()) if finite.size else math.inf


def _ink(curve: VCurve) -> str:
    return colours.TRAINING if curve.verdict == "right" else colours.WARNING


def _draw(axes: Axes, curve: VCurve, width: float, alpha: float) -> None:
    hit = np.where(curve.error < _LOWEST, np.nan, curve.error)  # an error of exactly 0, by chance: a gap
    axes.plot(curve.h, hit, color=_ink(curve), alpha=alpha, lw=width, marker="o", ms=2.5)


def _guide(axes: Axes) -> None:
    """The two slopes of the V, dotted."""
    h = np.array([1e-1, 1e-5])
    axes.plot(h, 0.03 * h**2, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(3e-2, 0.03 * 9e-4 / 40, "h²", color=colours.FAINT_INK)
    h = np.array([1e-5, 1e-11])
    axes.plot(h, 1e-16 / h, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(2e-8, 1e-16 / 2e-8 / 400, "rounding/h", color=colours.FAINT_INK)


def _number(axes: Axes, named: Sequence[VCurve]) -> None:
    """A number on each named curve: at its lowest point, or the nearest point beside which no other number is."""
    to_fraction = axes.transData + axes.transAxes.inverted()
    placed: list[_Place] = []
    for number, curve in enumerate(named, 1):
        points = [(h, e) for h, e in zip(curve.h, curve.error, strict=True) if np.isfinite(e) and e >= _LOWEST]
        points.sort(key=lambda point: abs(math.log(point[1]) - math.log(max(_lowest(curve), _LOWEST))))
        places = [_Place(*to_fraction.transform(point)) for point in points]
        free = [place for place in places if 0 <= place.x <= 1 and all(_apart(place, other) for other in placed)]
        if not places:
            continue
        place = (free or places)[0]
        placed.append(place)
        box = {"boxstyle": "circle,pad=0.18", "fc": "white", "ec": _ink(curve), "lw": 0.8}
        style: Style = {"color": _ink(curve), "fontsize": 7.5, "ha": "center", "va": "center", "bbox": box}
        axes.text(*place, str(number), transform=axes.transAxes, **style)


def _apart(one: _Place, other: _Place) -> bool:
    return math.hypot(one.x - other.x, (one.y - other.y) * _HEIGHT / _WIDTH) >= _APART


def _name(axes: Axes, ordered: Sequence[VCurve]) -> None:
    """In the margin on the right: number and name of each named curve, its verdict and its lowest error."""
    y = 0.98
    style: Style = {"va": "top", "transform": axes.transAxes, "fontsize": 8.5}
    for number, curve in enumerate(ordered[:_NAMED], 1):
        axes.text(1.03, y, str(number), color=_ink(curve), weight="bold", **style)
        lowest = _lowest(curve)
        found = f"lowest error {lowest:.0e}" if math.isfinite(lowest) else "no finite error"
        name = curve.name  # its end, the tensor, is kept
        if len(name) > _LETTERS:
            name = f"{name[: _LETTERS // 4]}…{name[-_LETTERS * 3 // 4 + 1 :]}"
        for text, ink in ((name, colours.INK), (f"{curve.verdict}, {found}", _ink(curve))):
            axes.text(1.07, y, text, color=ink, **style)
            y -= 0.042
        y -= 0.008
    if len(ordered) > _NAMED:
        more = f"and {len(ordered) - _NAMED} more, {_kinds(ordered[_NAMED:])}"
        axes.text(1.03, y, more, color=colours.FAINT_INK, **style)


def _kinds(curves: Sequence[VCurve]) -> str:
    wrong = sum(curve.verdict != "right" for curve in curves)
    lowest = max(map(_lowest, curves))
    return f"{wrong} of them not right" if wrong else f"right, lowest errors up to {lowest:.0e}"


def _frame(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_FAR, _NEAR)  # h shrinks from left to right
    axes.set_ylim(_LOWEST, 1e2)
    axes.set(xlabel="step size h", ylabel="scaled error |D(h) − analytic|")
    axes.grid(axis="x")
