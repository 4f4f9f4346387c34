"""Attention maps: one map per head, one row of maps per attention.

Query tokens stand down the side and key tokens below.

Cells of one strength are one path, so that a map of any size has few. There are 32 strengths at most, and two more
colours: for weights of exactly 0, which are hidden from the query, and for what is not a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npformer.errors import DTypeError, ShapeError
from npformer.io.printable import escaped
from npformer.see.plot.svg import (
    FONT,
    Drawing,
    Section,
    check_place,
    label_width,
    number,
    path,
    text,
    token_label,
    write_sheet,
)

LEVELS = 32
_HIDDEN, _LOST = -1, -2  # levels of cells that are no weights
_SIDE, _LARGEST, _SMALLEST = 176, 16, 7  # pixels: a map that is hoped for, and a cell
_TOP = 18  # pixels
_LAYER_NUMBER = re.compile(r"\.(\d+)\.")
#: Softmax in float32 may overshoot 1 by rounding; anything further is not a weight.
_ROUNDING = 1e-3
Weights = npt.NDArray[np.generic]


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


class AttentionMap(NamedTuple):
    """One attention of a model for one example: a row of the picture."""

    title: str  # "decoder 2 · cross-attention"
    reading: str  # "target tokens look at source tokens"
    weights: npt.NDArray[np.float64]  # (H, T, S)
    queries: Sequence[str]  # T query tokens
    keys: Sequence[str]  # S key tokens

    def drawings(self) -> list[Drawing]:
        """A map for each head."""
        return [_drawing(head, number, self) for number, head in enumerate(self.weights, start=1)]


def draw_attention(
    weights: Mapping[str, Weights], source: Sequence[str], target: Sequence[str], path: Path, title: str = ""
) -> None:
    """Write an SVG with every head of every attention, for one example.

    weights maps the name of each attention ("decoder.layers.1.cross_attention") to its weights (H, T, S);
    source and target are the tokens of the two sides. Rows are queries, columns keys; weights of exactly
    zero (hidden keys) have a separate colour. An existing picture at path is replaced.
    Raises ShapeError or DTypeError for weights that do not fit, OutputError if path cannot be written.
    """
    check_place(path)
    maps = attention_maps(weights, source, target)
    rows = [Section(row.title, row.reading, row.drawings()) for row in maps]
    write_sheet(path, title, [], [Section("", "", [attention_key(maps)]), *rows])


def attention_maps(weights: Mapping[str, Weights], source: Sequence[str], target: Sequence[str]) -> list[AttentionMap]:
    """Each attention with its title and its tokens. Raises ShapeError or DTypeError for weights that do not fit."""
    if not weights:
        raise ShapeError("weights: expected at least one attention, got none; pass model.attention_weights")
    return [_attention_map(name, value, source, target) for name, value in weights.items()]


def _attention_map(name: str, weights: Weights, source: Sequence[str], target: Sequence[str]) -> AttentionMap:
    """A name that starts with "encoder" attends from source to source, a name that contains "cross" from target to
    source, any other from target to target.
    """
    side = "source" if name.startswith("encoder") else "target"
    other = "source" if "cross" in name else side
    sides = {"source": source, "target": target}
    queries, keys = sides[side], sides[other]
    _check(name, weights, (side, len(queries)), (other, len(keys)))
    reading = f"{side} tokens, down, look at {other} tokens, across"
    return AttentionMap(_title(name), reading, np.asarray(weights, dtype=np.float64), queries, keys)


def _title(name: str) -> str:
    match = _LAYER_NUMBER.search(name)
    stack, kind = name.split(".")[0].removesuffix("s"), name.rsplit(".", 1)[-1].replace("_", "-")
    return f"{stack} {int(match[1]) + 1} · {kind}" if match else name


def _check(name: str, weights: Weights, query: tuple[str, int], key: tuple[str, int]) -> None:
    (side, rows), (other, columns) = query, key
    if weights.ndim != 3 or 0 in weights.shape or weights.shape[1:] != (rows, columns):
        raise ShapeError(
            f"{name}: expected weights (H, T={rows} {side} tokens, S={columns} {other} tokens), none of "
            f"them 0, got {weights.shape}; pass one example without its batch axis, with all its tokens"
        )
    if weights.dtype.kind != "f":
        raise DTypeError(f"{name}: expected floating-point weights, got {weights.dtype}; pass the softmax")
    finite = weights[np.isfinite(weights)]
    if finite.size and not -_ROUNDING <= finite.min() <= finite.max() <= 1 + _ROUNDING:
        raise DTypeError(
            f"{name}: expected weights between 0 and 1, got {finite.min():.3g} to {finite.max():.3g}; "
            "pass the weights after the softmax and without dropout"
        )


def attention_key(maps: Sequence[AttentionMap]) -> Drawing:
    """What the colours of these maps mean."""
    hidden = any((row.weights == 0).any() for row in maps)
    lost = not all(np.isfinite(row.weights).all() for row in maps)
    more = [("hidden", "exactly 0 (hidden, or too small for a float)")] * hidden + [("warn", "not a number")] * lost
    return key("attention weight, 0", more)


def _drawing(weights: npt.NDArray[np.float64], head: int, row: AttentionMap) -> Drawing:
    """The map of one head, weights (T, S)."""
    cell = min(max(_SIDE // max(weights.shape), _SMALLEST), _LARGEST)
    every = math.ceil(10 / cell)
    queries, keys = ([token_label(token) for token in tokens] for tokens in (row.queries, row.keys))
    left = round(6 + max(label_width(label, FONT) for label in queries))
    below = 6 + max(FONT if len(label) == 1 else label_width(label, FONT) for label in keys[::every])
    wide, high = cell * len(keys), cell * len(queries)
    body = [text(left, 11, f"head {head}", "ink"), cells(weights, left, _TOP, cell)]
    body.append(path("frame rule", f"M{left} {_TOP}h{wide}v{high}h-{wide}z"))
    names = (text(left - 4, _TOP + cell * (i + 0.5) + 3.5, queries[i]) for i in range(0, len(queries), every))
    body.append(f'<g text-anchor="end">{"".join(names)}</g>')
    body.extend(_keys(keys, every, left, _TOP + high, cell))
    most = ", ".join(
        f"{query} to {keys[int(numbers.argmax())]} {numbers.max():.2f}"
        for query, numbers in zip(queries, weights, strict=True)
    )
    told = f"Head {head}; the largest weight of each query: {most}"
    return Drawing(left + max(wide, 44) + 2, round(_TOP + high + below), "".join(body), told)


def _keys(labels: Sequence[str], every: int, left: float, foot: float, cell: float) -> Iterator[str]:
    """The names below a map: letters upright, longer ones written upwards."""
    for i in range(0, len(labels), every):
        x = left + cell * (i + 0.5)
        if len(labels[i]) == 1:
            yield text(x, foot + 12, labels[i], anchor="middle")
        else:
            turned = f'transform="translate({number(x + 3.5)} {number(foot + 4)})rotate(-90)" text-anchor="end"'
            yield f"<text {turned}>{escaped(labels[i])}</text>"
