"""Attention as inline SVG: one map for each head, query tokens down the side and key tokens below.

Cells of one strength are one path, so a map of 40 × 40 weights has 32 paths at most. A weight of exactly 0 is
hidden from the query, and has a colour of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from npformer.pages.document import escaped
from npformer.training.attention_example import AttentionExample
from npformer.typing import HostArray
from npformer.visible import visible

LEVELS = 32
_SIDE, _LARGEST, _SMALLEST = 176, 16, 7  # pixels: a map that is hoped for, and a cell
_LETTER = 6.2  # pixels of a letter, of a label of 10.5
_LONGEST = 9  # letters of a label
_NUMBER = re.compile(r"\.(\d+)\.")


def attention_figures(example: AttentionExample) -> str:
    """A figure for each attention of the example, with a map for each of its heads."""
    return "".join(_figure(name, weights, example) for name, weights in example.weights.items())


def title_of(name: str) -> str:
    """A title for the name of an attention: "decoder 2 · cross-attention"."""
    number = _NUMBER.search(name)
    stack, kind = name.split(".")[0].removesuffix("s"), name.rsplit(".", 1)[-1].replace("_", "-")
    return f"{stack} {int(number[1]) + 1} · {kind}" if number else name


def _figure(name: str, weights: HostArray, example: AttentionExample) -> str:
    side = "source" if name.startswith("encoder") else "target"
    other = "source" if "cross" in name else side
    tokens = {"source": example.source, "target": example.target}
    maps = "".join(_map(head, number, tokens[side], tokens[other]) for number, head in enumerate(weights, start=1))
    reading = f"{side} tokens, down, read {other} tokens, across" if side != other else f"{side} tokens read each other"
    return (
        f'<figure class="attention"><figcaption><b>{escaped(title_of(name))}</b> <span class="quiet">{reading}</span>'
        f'</figcaption><div class="heads">{maps}</div></figure>'
    )


def _map(weights: HostArray, number: int, queries: Sequence[str], keys: Sequence[str]) -> str:
    """One head's weights (T, S)."""
    cell = min(max(_SIDE // max(len(queries), len(keys)), _SMALLEST), _LARGEST)
    rows, columns = [token_label(token) for token in queries], [token_label(token) for token in keys]
    every = math.ceil(10 / cell)
    left = round(8 + _LETTER * max(map(len, rows)))
    longest = max(map(len, columns))
    below = 16 if longest == 1 else round(8 + _LETTER * longest)
    width, height = left + cell * len(columns) + 8, 18 + cell * len(rows) + below
    drawn = [f'<text class="head" x="{left}" y="11">head {number}</text>']
    drawn.append(f'<g transform="translate({left} 18) scale({cell})">{_cells(weights)}</g>')
    frame = f'x="{left}" y="18" width="{cell * len(columns)}" height="{cell * len(rows)}"'
    drawn.append(f'<rect class="frame" {frame}/>')
    for i, label in list(enumerate(rows))[::every]:
        drawn.append(
            f'<text x="{left - 4}" y="{18 + cell * (i + 0.5) + 3.5:g}" text-anchor="end">{escaped(label)}</text>'
        )
    foot = 18 + cell * len(rows)
    for i, label in list(enumerate(columns))[::every]:
        x = left + cell * (i + 0.5)
        place = (
            f'x="{x:g}" y="{foot + 12}" text-anchor="middle"'
            if len(label) == 1
            else f'transform="translate({x + 3.5:g} {foot + 4}) rotate(-90)" text-anchor="end"'
        )
        drawn.append(f"<text {place}>{escaped(label)}</text>")
    return (
        f'<svg class="map" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escaped(_told(weights, number, queries, keys))}">{"".join(drawn)}</svg>'
    )


def _cells(weights: HostArray) -> str:
    """Unit squares, those of one strength in one path."""
    levels: dict[int, list[str]] = {}
    for i, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if math.isfinite(weight):
                level = math.ceil(weight * LEVELS - 0.5) if weight > 0 else -1
                levels.setdefault(min(level, LEVELS), []).append(f"M{j} {i}h1v1h-1z")
    return "".join(
        f'<path class="hidden" d="{"".join(squares)}"/>'
        if level < 0
        else f'<path class="weight" fill-opacity="{level / LEVELS:.3g}" d="{"".join(squares)}"/>'
        for level, squares in sorted(levels.items())
        if level
    )


def _told(weights: HostArray, number: int, queries: Sequence[str], keys: Sequence[str]) -> str:
    """The map in words: where each query looks most."""
    most = ", ".join(
        f"{token_label(query)} to {token_label(keys[int(row.argmax())])} {row.max():.2f}"
        for query, row in zip(queries, weights, strict=True)
    )
    return f"Head {number}; the largest weight of each query: {most}"


def token_label(token: str) -> str:
    """The name of a token on an axis."""
    shown = visible(token).replace(" ", "␣")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
