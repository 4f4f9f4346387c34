"""Who resembles whom, before and after: square maps of cosine similarity, words in groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from npformer.errors import ShapeError
from npformer.plotting import colours
from npformer.plotting.canvas import Style, check_place, drawing, new_figure, write_picture

_SIDE, _LEFT, _GAP, _EDGE, _TOP, _BOTTOM, _DPI = 3.9, 0.85, 0.85, 0.3, 1.25, 0.35, 150.0  # inches, dots per inch

Matrix = npt.NDArray[np.floating]


def draw_similarity(
    maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], path: Path, title: str, note: str = ""
) -> None:
    """Write a PNG of maps (name, cosine similarities (n, n)) side by side; groups (n) names each word's group.

    Words of one group stand together. Raises ShapeError if a matrix is not (n, n), OutputError if path
    cannot be written.
    """
    check_place(path)
    write_picture(similarity_figure(maps, groups, title, note), path)


@drawing()
def similarity_figure(maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], title: str, note: str = "") -> Figure:
    """The picture of draw_similarity as a Figure: one Axes per map, and one for the colour bar (last)."""
    count = len(groups)
    for name, matrix in maps:
        if matrix.shape != (count, count) or count == 0:
            raise ShapeError(f"{name}: expected similarities of the {count} words in groups, got {matrix.shape}")
    width = _EDGE + len(maps) * (_LEFT + _SIDE) + (len(maps) - 1) * (_GAP - _LEFT) + _EDGE
    height = _TOP + _SIDE + _BOTTOM
    figure = new_figure(width, height, _DPI)
    heading: Style = {"va": "top", "fontsize": 13, "weight": "bold", "color": colours.INK}
    figure.text(_EDGE / width, 1 - 0.17 / height, title, **heading)
    figure.text(_EDGE / width, 1 - 0.5 / height, note, va="top", fontsize=9, color=colours.FAINT_INK)
    for i, (name, matrix) in enumerate(maps):
        left = _EDGE + _LEFT + i * (_SIDE + _GAP)
        axes = figure.add_axes((left / width, _BOTTOM / height, _SIDE / width, _SIDE / height))
        _draw_map(axes, matrix, groups)
        axes.set_title(name, loc="left", fontsize=10, weight="bold", color=colours.INK)
    _draw_bar(figure.add_axes(((width - _EDGE - 1.5) / width, 1 - 0.58 / height, 1.5 / width, 0.12 / height)))
    return figure


def _draw_map(axes: Axes, matrix: Matrix, groups: Sequence[str]) -> None:
    """One map: blocks of equal groups are framed and named once."""
    axes.imshow(np.clip(matrix, 0, 1), cmap=colours.weight_ramp(), vmin=0, vmax=1, interpolation="nearest")
    sizes = [(group, len(list(members))) for group, members in groupby(groups)]
    ends = np.cumsum([size for _, size in sizes])
    starts = ends - [size for _, size in sizes]
    for edge in ends[:-1]:
        axes.axhline(edge - 0.5, color=colours.RULE, linewidth=0.5)
        axes.axvline(edge - 0.5, color=colours.RULE, linewidth=0.5)
    axes.set_yticks((starts + ends - 1) / 2, [group for group, _ in sizes], fontsize=8.5, color=colours.INK)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set(color=colours.RULE, linewidth=0.6)


def _draw_bar(axes: Axes) -> None:
    axes.imshow(colours.weight_ramp()(np.linspace(0, 1, 256))[None], aspect="auto", extent=(0, 1, 0, 1))
    axes.set_xticks([0, 0.5, 1], ["≤ 0", "0.5", "1"], fontsize=7.5, color=colours.FAINT_INK)
    axes.set_yticks([])
    axes.tick_params(length=2, pad=1.5, color=colours.RULE)
    axes.spines[:].set(color=colours.RULE, linewidth=0.6)
    axes.set_title("cosine similarity", fontsize=8, color=colours.INK, pad=3, loc="left")
