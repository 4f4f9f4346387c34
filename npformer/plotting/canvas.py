"""Shared by all pictures: one style, a sheet with a heading, and safe writing to disk.

A reader's matplotlibrc may ask for LaTeX, another font or other margins. Pictures of a run should look the
same everywhere, so each is drawn and written inside `drawing()`, in STYLE on top of matplotlib's own defaults.
Only the Agg canvas is used, never pyplot: no window, no state shared with the user's program.

All positions on a sheet are in inches from its lower left corner.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeAlias

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from npformer.errors import OutputError
from npformer.output_files import OWN_PICTURE, expect_place, write_file
from npformer.plotting import colours

#: Keyword arguments for the look of a text or a line.
Style: TypeAlias = dict[str, Any]

#: Axes of numbers: names in grey, one line at the bottom, faint grid lines, no ticks. For maps see `as_map`.
STYLE: Style = {
    "figure.dpi": 150.0,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlecolor": colours.INK,
    "axes.labelsize": 9,
    "axes.labelcolor": colours.FAINT_INK,
    "axes.edgecolor": colours.RULE,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": colours.RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "lines.markersize": 4,
} | {f"axes.spines.{side}": False for side in ("left", "right", "top")}
for _axis in ("xtick", "ytick"):
    STYLE |= {f"{_axis}.color": colours.FAINT_INK, f"{_axis}.labelsize": 8.5}
    STYLE |= {f"{_axis}.major.size": 0, f"{_axis}.minor.size": 0}

EDGE = 0.3  # inches: the margin of a sheet
_TITLE, _NOTES, _LINE = 0.2, 0.54, 0.19  # inches: from the top to the title and to the notes; a line of notes
_LETTERS = 15.0  # characters of a note per inch
_TITLE_LETTERS = 127.0  # characters of a title per inch, times the font size


@contextmanager
def drawing() -> Iterator[None]:
    """Only STYLE applies, and a character that the font lacks gives a box without a warning."""
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support .* natively")
        yield


def new_figure(width: float, height: float, dpi: float | None = None) -> Figure:
    """An empty white figure of width × height inches, bound to the Agg canvas."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def sheet(width: float, below: float, title: str, notes: Sequence[str], left: float = EDGE) -> Figure:
    """A figure with a title, notes as lines of text below it, and `below` inches for the drawing."""
    room = width - left - EDGE
    lines = [line for note in notes for line in wrap(note, int(_LETTERS * room))]
    height = _NOTES + _LINE * len(lines) + below
    figure = new_figure(width, height)
    size = min(14.0, _TITLE_LETTERS * room / max(1, len(title)))
    style: Style = {"va": "top", "parse_math": False}  # $ and _ are themselves
    bold: Style = {"fontsize": size, "weight": "bold", "color": colours.INK}
    figure.text(left / width, 1 - _TITLE / height, title, **bold, **style)
    for i, line in enumerate(lines):
        place = 1 - (_NOTES + _LINE * i) / height
        figure.text(left / width, place, line, fontsize=9, color=colours.FAINT_INK, **style)
    return figure


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at this position of the figure, in inches."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def as_map(axes: Axes) -> None:
    """A frame around the axes, without grid lines."""
    axes.grid(False)
    axes.spines[:].set_visible(True)


def colour_bar(figure: Figure, left: float, bottom: float, lowest: str) -> Axes:
    """Draw the colour bar of weights with its numbers; lowest: the label of the first one."""
    axes = add_axes(figure, left, bottom, 1.5, 0.12)
    axes.imshow(colours.weight_ramp()(np.linspace(0, 1, 256))[None], aspect="auto", extent=(0, 1, 0, 1))
    axes.set_xticks([0, 0.5, 1], [lowest, "0.5", "1"], fontsize=7.5)
    axes.set_yticks([])
    axes.tick_params(length=2, pad=1.5, color=colours.RULE)
    as_map(axes)
    return axes


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes (no date, no program version inside)."""
    buffer = BytesIO()
    with drawing():
        figure.savefig(buffer, format="png", dpi=figure.dpi, metadata={"Software": None})
    return buffer.getvalue()


def check_place(path: Path) -> None:
    """Raise OutputError unless a picture may be written at path.

    An existing picture may be replaced, since it can be drawn again; any other file may not.
    """
    if path.suffix.lower() != ".png":
        raise OutputError(f"picture: expected a file name ending in .png, got '{path}'; rename it")
    expect_place(path, "picture", OWN_PICTURE)


def write_picture(figure: Figure, path: Path) -> None:
    """Write the figure to path as PNG, atomically. Raises OutputError if that fails."""
    check_place(path)
    write_file(path, "picture", png_bytes(figure))
