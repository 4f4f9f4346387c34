"""Small arrays as tables of coloured numbers: blue below zero, red above, the stronger the larger."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]
SHADES = 6
#: How the axes before the last two are called, by the number of axes.
_AXES = {3: ("row",), 4: ("row", "head")}


def tables(array: Host, name: str, rows: Sequence[Sequence[str]] | None = None) -> str:
    """An array of any rank as HTML; its colours are relative to its largest number.

    rows: the labels of the last axis but one, for each index of the first axis; e.g. the tokens of each sequence.
    """
    largest = float(np.max(np.abs(array), initial=0.0)) or 1.0
    flat = array.reshape(-1, array.shape[-1]) if array.ndim == 1 else array
    shown = "".join(_one(part, caption, labels, largest) for part, caption, labels in _parts(flat, rows))
    return _figure(shown, name, array)


def _figure(shown: str, name: str, array: Host) -> str:
    shape = " × ".join(map(str, array.shape)) or "one number"
    return f'<figure class="array"><figcaption><code>{html.escape(name)}</code> {shape}</figcaption>{shown}</figure>'


def _caption(place: tuple[int, ...], axes: int) -> str:
    words = zip(_AXES.get(axes, ("",) * len(place)), place, strict=True)
    return ", ".join(f"{word} {i}".strip() for word, i in words)


def _parts(array: Host, rows: Sequence[Sequence[str]] | None) -> Iterator[tuple[Host, str, Sequence[str] | None]]:
    """Its matrices, each with a caption and the labels of its rows."""
    if array.ndim == 0:
        array = array.reshape(1, 1)
    for place in np.ndindex(array.shape[:-2]):
        labels = rows[place[0]] if rows is not None and place and len(rows[place[0]]) == array.shape[-2] else None
        yield array[place], _caption(place, array.ndim), labels


def _one(matrix: Host, caption: str, labels: Sequence[str] | None, largest: float) -> str:
    lines = []
    for i, row in enumerate(matrix):
        head = f"<th>{html.escape(labels[i])}</th>" if labels is not None else ""
        cells = (_cell(float(x), largest) for x in row)
        lines.append(f"<tr>{head}{''.join(cells)}</tr>")
    said = f"<caption>{caption}</caption>" if caption else ""
    return f'<table class="matrix">{said}{"".join(lines)}</table>'


def _cell(x: float, largest: float) -> str:
    if x == 0:
        return '<td class="z">0</td>'
    shade = max(1, round(SHADES * min(1.0, abs(x) / largest)))
    return f'<td class="{"p" if x > 0 else "n"}{shade}">{number(x)}</td>'


def number(x: float) -> str:
    """Two digits after the point; numbers that need more room by their power of ten."""
    if 0.005 <= abs(x) < 1e5:
        return f"{x:.{2 if abs(x) < 1000 else 0}f}".replace("-", "−")
    digits, _, power = f"{x:.0e}".partition("e")
    return f"{digits}e{int(power)}".replace("-", "−")
