"""Square maps of cosine similarity between words, in groups, for example before and after training."""

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
from npformer.plotting.canvas import EDGE, add_axes, as_map, check_place, colour_bar, drawing, sheet, write_picture

_SIDE, _LEFT, _TOP, _BOTTOM = 3.9, 0.85, 0.55, 0.35  # inches

Matrix = npt.NDArray[np.floating]


def draw_similarity(
    maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], path: Path, title: str, note: str = ""
) -> None:
    """Write a PNG of maps (name, cosine similarities (n, n)) side by side; groups (n) names each word's group.

    Words of one group are next to each other. Raises ShapeError if a matrix is not (n, n), OutputError if path
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
    width = 2 * EDGE + len(maps) * (_LEFT + _SIDE)
    figure = sheet(width, _TOP + _SIDE + _BOTTOM, title, [note])
    for i, (name, matrix) in enumerate(maps):
        axes = add_axes(figure, EDGE + _LEFT + i * (_SIDE + _LEFT), _BOTTOM, _SIDE, _SIDE)
        _draw_map(axes, matrix, groups)
        axes.set_title(name)
    bar = colour_bar(figure, width - EDGE - 1.5, figure.get_figheight() - 0.58, "≤ 0")
    bar.set_title("cosine similarity", fontsize=8, weight="normal", pad=3)
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
    as_map(axes)
