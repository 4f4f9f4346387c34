"""Maps of cosine similarity between words, in groups, side by side: for example before and after training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npformer.errors import ShapeError
from npformer.see.plot.attention import cells, key
from npformer.see.plot.svg import Drawing, Section, check_place, number, path, text, write_sheet

_SIDE, _LEFT, _TOP = 300, 60, 20  # pixels: a map, the names of its groups, its own name

Matrix = npt.NDArray[np.floating]


def draw_similarity(
    maps: Sequence[tuple[str, Matrix]], groups: Sequence[str], path: Path, title: str, note: str = ""
) -> None:
    """Write an SVG of maps (name, cosine similarities (n, n)) side by side; groups (n) names each word's group.

    Words of one group are next to each other. Raises ShapeError if a matrix is not (n, n), OutputError if path
    cannot be written.
    """
    check_place(path)
    count = len(groups)
    for name, matrix in maps:
        if matrix.shape != (count, count) or count == 0:
            raise ShapeError(f"{name}: expected similarities of the {count} words in groups, got {matrix.shape}")
    drawn = [similarity_drawing(name, matrix, groups) for name, matrix in maps]
    scale = key("cosine similarity, 0 and less", [])
    write_sheet(path, title, [note], [Section("", "", [scale]), Section("", "", drawn)])


def similarity_drawing(name: str, matrix: Matrix, groups: Sequence[str]) -> Drawing:
    """One map: groups are parted by lines and named once."""
    cell, at = _SIDE / len(groups), 0
    names, edges = [], [f"M{_LEFT} {_TOP}h{_SIDE}M{_LEFT} {_TOP}v{_SIDE}"]
    for group, members in groupby(groups):
        size = len(list(members))
        names.append(text(_LEFT - 5, _TOP + cell * (at + size / 2) + 3.5, group, anchor="end"))
        at += size
        edges.append(f"M{_LEFT} {number(_TOP + cell * at)}h{_SIDE}M{number(_LEFT + cell * at)} {_TOP}v{_SIDE}")
    frame = path("frame rule", "".join(edges))
    body = [text(_LEFT, 12, name, "ink bold title"), cells(matrix, _LEFT, _TOP, cell, hide=False), *names, frame]
    told = f"{name}: cosine similarity of {len(groups)} words in {len(names)} groups"
    return Drawing(_LEFT + _SIDE + 2, _TOP + _SIDE + 2, "".join(body), told)
