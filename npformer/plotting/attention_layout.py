"""Each attention's name, token axes and weights, checked before anything is drawn; and sizes and positions, in inches.

All cells of a picture have one size, chosen for its longest sequence: large for three tokens, and large
enough for a legible letter up to forty. Beyond that the maps stop growing, and only every second (third, …)
token is labelled.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npformer.errors import DTypeError, ShapeError
from npformer.plotting.labels import label_width, token_label

MARGIN, GAP = 0.3, 0.2
TITLE, KEY, ROW_HEADER = 0.36, 0.5, 0.46
_NARROWEST = 6.0
_MAP_SIDE = 2.0  # preferred size of a map
_SMALLEST_CELL, _LARGEST_CELL = 0.12, 0.42
_LARGEST_MAP = 42 * _SMALLEST_CELL  # forty letters, [BOS] and [EOS]
_SMALLEST_LETTER, _LARGEST_LETTER = 6.3, 9.5  # points
_DPI, _LONGEST_SIDE, _MOST_PIXELS = 150.0, 12_000, 40_000_000
_LAYER_NUMBER = re.compile(r"\.(\d+)\.")
#: Softmax in float32 may overshoot 1 by rounding; anything further is not a weight.
_ROUNDING = 1e-3


class AttentionMap(NamedTuple):
    """One attention of a model for one example: a row of the picture."""

    title: str  # "decoder 2 · cross-attention"
    reading: str  # "target tokens look at source tokens"
    weights: npt.NDArray[np.float64]  # (H, T, S)
    queries: list[str]  # T query tokens
    keys: list[str]  # S key tokens


def attention_map(name: str, weights: npt.NDArray[np.generic], source: list[str], target: list[str]) -> AttentionMap:
    """Give one attention its title and its tokens.

    A name that starts with "encoder" attends from source to source, a name that contains "cross" from target to
    source, any other from target to target. weights is (H, T, S).
    Raises ShapeError if weights does not fit these tokens, DTypeError if it holds no attention weights.
    """
    side = "source" if name.startswith("encoder") else "target"
    other = "source" if "cross" in name else side
    sides = {"source": source, "target": target}
    queries, keys = sides[side], sides[other]
    _check(name, weights, (side, len(queries)), (other, len(keys)))
    reading = f"{side} tokens look at {other} tokens"
    return AttentionMap(_title(name), reading, np.asarray(weights, dtype=np.float64), queries, keys)


def _title(name: str) -> str:
    number = _LAYER_NUMBER.search(name)
    if number is None:
        return name
    part = name.split(".")[0]
    kind = name.rsplit(".", 1)[-1].replace("_", "-")
    return f"{part.removesuffix('s')} {int(number.group(1)) + 1} · {kind}"


def _check(name: str, weights: npt.NDArray[np.generic], query: tuple[str, int], key: tuple[str, int]) -> None:
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


class Layout(NamedTuple):
    """The measures of one picture."""

    cell: float  # inches, the side of one weight
    letter: float  # points, the size of a token's name
    name_every: int  # 1: every token is labelled
    left: float  # inches, room for the names of the queries
    pitch: float  # inches from one head to the next
    below: list[float]  # inches, room for the names of each row's keys
    width: float  # inches
    height: float  # inches
    dpi: float


def plan(maps: list[AttentionMap], title: str) -> Layout:
    """The measures of a picture with these rows, under this title."""
    longest = max(max(len(row.queries), len(row.keys)) for row in maps)
    cell = min(max(_MAP_SIDE / longest, _SMALLEST_CELL), _LARGEST_CELL, _LARGEST_MAP / longest)
    letter = min(max(0.74 * 72 * cell, _SMALLEST_LETTER), _LARGEST_LETTER)
    heads = max(row.weights.shape[0] for row in maps)
    pitch = max(cell * max(len(row.keys) for row in maps), 0.6) + GAP
    left = MARGIN + 0.1 + max(label_width(token_label(token), letter) for row in maps for token in row.queries)
    name_every = int(np.ceil(_SMALLEST_CELL / cell - 1e-9))
    below = [0.15 + max(_across(row.keys[::name_every], letter, cell * name_every)) + GAP for row in maps]
    width = max(left + heads * pitch - GAP + MARGIN, _NARROWEST)
    panels = sum(ROW_HEADER + len(row.queries) * cell for row in maps) + sum(below)
    height = MARGIN + (TITLE if title else 0.0) + KEY + panels
    dpi = min(_DPI, _LONGEST_SIDE / max(width, height), (_MOST_PIXELS / (width * height)) ** 0.5)
    return Layout(cell, letter, name_every, left, pitch, below, width, height, dpi)


def turned(labels: list[str], letter: float, step: float) -> list[bool]:
    """Whether each key's name, step inches from the next, is written upwards, since it is too wide.

    The name of a special token may be wider than its column, if the names beside it leave room.
    """
    widths = [label_width(label, letter) for label in labels]
    found = [len(label) > 1 and width > step for label, width in zip(labels, widths, strict=True)]
    taken = [_line(letter) if is_turned else width for is_turned, width in zip(found, widths, strict=True)]
    for i, label in enumerate(labels):
        beside = max([*taken[max(i - 1, 0) : i], *taken[i + 1 : i + 2]], default=0.0)
        if label.startswith("⟨") and (widths[i] + beside) / 2 < step:
            found[i] = False
            taken[i] = widths[i]
    return found


def _line(letter: float) -> float:
    """The height of a line of text, in inches."""
    return 1.2 * letter / 72


def _across(tokens: list[str], letter: float, step: float) -> list[float]:
    """The height of each key's name below its map."""
    labels = [token_label(token) for token in tokens]
    upwards = zip(labels, turned(labels, letter, step), strict=True)
    return [label_width(label, letter) if is_turned else _line(letter) for label, is_turned in upwards]
