"""The V of a gradient check: the error of central differences against the step size, both logarithmic.

The error of a right gradient falls with h² and rises again where rounding dominates; that of a wrong one stays level.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from npformer.errors import DataError
from npformer.plotting import colours
from npformer.plotting.canvas import add_axes, check_place, drawing, sheet, write_picture

_LOWEST = 3e-17  # the vertical axis ends here
_LABELLED = 14  # names that fit beside the axes
_LETTERS = 52  # characters that fit into a line of a name


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
    """Draw the curves to path, a .png. Raises DataError if there are none, OutputError if path cannot be written."""
    check_place(path)
    if not curves:
        raise DataError("curves: expected at least one, got none; nothing to draw")
    write_picture(sweep_figure(curves), path)


@drawing()
def sweep_figure(curves: Sequence[VCurve]) -> Figure:
    """The picture of ``draw_sweep``."""
    title = "Error of central differences against the step size"
    figure = sheet(11.0, 5.27, title, ["a right gradient falls as h² to a V; a wrong one runs level"])
    axes = add_axes(figure, 0.9, 0.65, 6.4, 4.5)
    right = [curve for curve in curves if curve.verdict == "right"]
    wrong = [curve for curve in curves if curve.verdict != "right"]
    for curve in right:
        _draw(axes, curve, colours.TRAINING, alpha=0.85 if len(right) <= _LABELLED else 0.35)
    for curve in wrong:
        _draw(axes, curve, colours.WARNING, alpha=0.9)
    _guide(axes)
    _name(axes, [*wrong, *right][:_LABELLED], len(curves))
    _frame(axes)
    return figure


def _draw(axes: Axes, curve: VCurve, colour: str, alpha: float) -> None:
    hit = np.where(curve.error < _LOWEST, np.nan, curve.error)  # an error of exactly 0, by chance: a gap
    axes.plot(curve.h, hit, color=colour, alpha=alpha, lw=1.4, marker="o", ms=2.5)


def _guide(axes: Axes) -> None:
    """The two slopes of the V, dotted."""
    h = np.array([1e-1, 1e-5])
    axes.plot(h, 0.03 * h**2, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(3e-2, 0.03 * 9e-4 / 40, "h²", color=colours.FAINT_INK)
    h = np.array([1e-5, 1e-11])
    axes.plot(h, 1e-16 / h, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(2e-8, 1e-16 / 2e-8 / 400, "rounding/h", color=colours.FAINT_INK)


def _name(axes: Axes, named: Sequence[VCurve], count: int) -> None:
    """The curves' names in the margin on the right, the wrong ones first."""
    lines = [
        (_short(f"{curve.name}: {curve.verdict}"), "right" if curve.verdict == "right" else "wrong") for curve in named
    ]
    if count > len(named):
        lines.append((f"and {count - len(named)} more", "more"))
    ink = {"right": colours.TRAINING, "wrong": colours.WARNING, "more": colours.FAINT_INK}
    for i, (text, kind) in enumerate(lines):
        axes.text(1.03, 0.98 - 0.055 * i, text, color=ink[kind], va="top", transform=axes.transAxes, fontsize=8.5)


def _short(name: str) -> str:
    """A name that fits into the margin; its end, the tensor and the verdict, is kept."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS // 4]}…{name[-_LETTERS * 3 // 4 + 1 :]}"


def _frame(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(2e-1, 5e-12)  # h shrinks from left to right
    axes.set_ylim(_LOWEST, 1e2)
    axes.set(xlabel="step size h", ylabel="scaled error |D(h) − analytic|")
    axes.grid(axis="x")
