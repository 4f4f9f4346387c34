"""A map of weights: cells of one strength are one path, so that a map of any size has few.

There are 32 strengths at most, and two more colours: for weights of exactly 0, which are hidden from the query, and for
what is not a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from npformer.plotting.labels import label_width
from npformer.plotting.svg import FONT, Drawing, number, text

LEVELS = 32
_HIDDEN, _LOST = -1, -2  # levels of cells that are no weights


def cells(weights: npt.NDArray[np.floating], left: float, top: float, cell: float, hide: bool = True) -> str:
    """Weights (T, S) as strokes of one cell's height, those of one strength in one path.

    hide: a weight of exactly 0 has a colour of its own; otherwise it is drawn as the paper.
    """
    with np.errstate(invalid="ignore"):
        levels = np.ceil(np.clip(weights, 0, 1) * LEVELS - 0.5)
    levels = np.where(np.isfinite(weights), np.where((weights <= 0) & hide, _HIDDEN, levels), _LOST)
    strokes: dict[int, list[str]] = {}
    pens: dict[int, tuple[int, int]] = {}  # where the last stroke of each level ends
    for i, row in enumerate(levels.astype(np.int64).tolist()):
        at = 0
        for level, same in groupby(row):
            count = len(list(same))
            x, y = pens.get(level, (0, 0))
            strokes.setdefault(level, []).append(f"m{at - x} {i - y}h{count}")
            at += count
            pens[level] = at, i
    kinds = {_LOST: 'class="warn"', _HIDDEN: 'class="hidden"', LEVELS: 'class="weight"'}
    body = "".join(
        f'<path {kinds.get(level) or _opaque(level)} d="{"".join(strokes[level])}"/>'
        for level in sorted(strokes)
        if level
    )
    place = f"translate({number(left)} {number(top + cell / 2)})scale({cell:.4g})"
    return f'<g class="cells" transform="{place}">{body}</g>'


def _opaque(level: int) -> str:
    opacity = f"{level / LEVELS:.3g}".removeprefix("0")
    return f'class="weight" stroke-opacity="{opacity}"'


def key(lowest: str, more: Sequence[tuple[str, str]]) -> Drawing:
    """The scale of weights from the lowest to 1, and more colours with their meanings."""
    x = label_width(lowest, FONT) + 4
    scale = np.arange(1, 9)[None] / 8
    body = [text(0, 11, lowest), cells(scale, x, 2, 12), text(x + 102, 11, "1")]
    x += 124
    for kind, meaning in more:
        body.append(f'<path class="bar {kind}" d="M{number(x)} 2h12v12h-12z"/>{text(x + 17, 11, meaning)}')
        x += 30 + label_width(meaning, FONT)
    told = ", ".join([f"From pale to strong: {lowest} to 1", *(meaning for _, meaning in more)])
    return Drawing(round(x), 16, "".join(body), told)
