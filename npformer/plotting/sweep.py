"""The V of a gradient check: the error of central differences against the step size, both logarithmic.

Right gradients fall with h² and rise again where rounding takes over; wrong ones run level.
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
from npformer.plotting.canvas import check_place, drawing, new_figure, write_picture

_FLOOR = 1e-16  # an error of exactly 0 is drawn here
_LABELLED = 8  # more names than that would touch


class VCurve(Protocol):
    """What is drawn: a name, step sizes h (k,), errors (k,), and the verdict of the check."""

    @property
    def name(self) -> str: ...
    @property
    def h(self) -> npt.NDArray[np.float64]: ...
    @property
    def error(self) -> npt.NDArray[np.float64]: ...
    @property
    def verdict(self) -> str: ...


def draw_sweep(curves: Sequence[VCurve], path: Path) -> None:
    """Draw the curves to path, a .png. Raises DataError if there is none, OutputError if path cannot be written."""
    check_place(path)
    if not curves:
        raise DataError("curves: expected at least one, got none; nothing to draw")
    with drawing():
        write_picture(sweep_figure(curves), path)


def sweep_figure(curves: Sequence[VCurve]) -> Figure:
    """The picture of ``draw_sweep``."""
    figure = new_figure(9.0, 6.0, 130)
    axes = figure.add_axes((0.1, 0.11, 0.86, 0.76))
    figure.text(0.02, 0.95, "Error of central differences against the step size", fontsize=13, weight="bold")
    figure.text(0.02, 0.915, "a right gradient falls as h² to a V; a wrong one runs level", color=colours.FAINT_INK)
    right = [curve for curve in curves if curve.verdict == "right"]
    wrong = [curve for curve in curves if curve.verdict != "right"]
    for curve in right:
        _draw(axes, curve, colours.TRAINING, alpha=0.85 if len(right) <= _LABELLED else 0.35)
    for curve in wrong:
        _draw(axes, curve, colours.WARNING, alpha=0.9)
    _guide(axes)
    _name(axes, wrong[:_LABELLED] or right[:_LABELLED], len(curves))
    _frame(axes)
    return figure


def _draw(axes: Axes, curve: VCurve, colour: str, alpha: float) -> None:
    axes.plot(curve.h, np.maximum(curve.error, _FLOOR), color=colour, alpha=alpha, lw=1.4, marker="o", ms=2.5)


def _guide(axes: Axes) -> None:
    """The two slopes of the V, dotted."""
    h = np.array([1e-1, 1e-5])
    axes.plot(h, 0.03 * h**2, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(2e-3, 0.03 * 4e-6 / 12, "h²", color=colours.FAINT_INK)
    h = np.array([1e-5, 1e-11])
    axes.plot(h, 1e-16 / h, color=colours.FAINT_INK, lw=1, ls=":")
    axes.text(2e-9, 1e-16 / 2e-9 / 12, "rounding/h", color=colours.FAINT_INK)


def _name(axes: Axes, named: Sequence[VCurve], count: int) -> None:
    for i, curve in enumerate(named):
        colour = colours.TRAINING if curve.verdict == "right" else colours.WARNING
        axes.text(0.985, 0.04 + 0.045 * (len(named) - 1 - i), f"{curve.name}: {curve.verdict}", color=colour,
                  ha="right", transform=axes.transAxes, fontsize=8.5)  # fmt: skip
    if count > len(named):
        axes.text(0.985, 0.06 + 0.045 * len(named), f"{count} curves, of which:", color=colours.FAINT_INK,
                  ha="right", transform=axes.transAxes, fontsize=8.5)  # fmt: skip


def _frame(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(2e-1, 5e-12)  # h shrinks from left to right, as one would try it
    axes.set_ylim(_FLOOR / 3, 1e2)
    axes.set_xlabel("step size h")
    axes.set_ylabel("scaled error |D(h) − analytic|")
    axes.grid(color=colours.RULE, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
