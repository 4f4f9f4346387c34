"""Small arrays as tables of coloured numbers: blue below zero, red above, the stronger the larger."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]
SHADES = 6
#: Differences below this, relative to the largest number, are not framed.
_ROUNDING = 1e-12
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


def versus(right: Host | None, wrong: Host | None, name: str) -> tuple[str, str]:
    """An array without a bug and with it, as HTML each, in the same colours; what differs is framed.

    Of an array of more than two axes, the matrix with the largest difference; of one that is only on one side, the
    first. A side that is None is empty.
    """
    sides = [x for x in (right, wrong) if x is not None]
    largest = max(float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)) for x in sides) or 1.0
    marks, place = None, (0,) * max(x.ndim for x in sides)
    if right is not None and wrong is not None and right.shape == wrong.shape:
        apart = _apart(right, wrong)
        marks = apart > _ROUNDING * largest
        place = tuple(map(int, np.unravel_index(int(np.argmax(apart)), apart.shape)))
    shown = [_matrix_at(x, place, marks, name, largest) if x is not None else "" for x in (right, wrong)]
    return shown[0], shown[1]


def _apart(right: Host, wrong: Host) -> Host:
    """How far the numbers are apart; ∞ where only one of them is a number."""
    with np.errstate(invalid="ignore"):
        apart = np.where(right == wrong, 0.0, np.abs(wrong - right))
    return np.where(np.isnan(apart), np.where(np.isnan(right) & np.isnan(wrong), 0.0, np.inf), apart)


def _matrix_at(x: Host, place: tuple[int, ...], marks: Host | None, name: str, largest: float) -> str:
    """The matrix of an array that holds this place, as a figure."""
    place = place[: max(0, x.ndim - 2)]
    matrix, framed = (None if each is None else np.atleast_2d(each[place]) for each in (x, marks))
    return _figure(_one(matrix, _caption(place, x.ndim), None, largest, framed), name, x)


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


def _one(matrix: Host, caption: str, labels: Sequence[str] | None, largest: float, marks: Host | None = None) -> str:
    lines = []
    for i, row in enumerate(matrix):
        head = f"<th>{html.escape(labels[i])}</th>" if labels is not None else ""
        cells = (_cell(float(x), largest, marks is not None and bool(marks[i, k])) for k, x in enumerate(row))
        lines.append(f"<tr>{head}{''.join(cells)}</tr>")
    said = f"<caption>{caption}</caption>" if caption else ""
    return f'<table class="matrix">{said}{"".join(lines)}</table>'


def _cell(x: float, largest: float, marked: bool = False) -> str:
    mark = " d" if marked else ""
    if x == 0 or math.isnan(x):
        return f'<td class="{"z" if x == 0 else "x"}{mark}">{number(x) if x else 0}</td>'
    shade = max(1, round(SHADES * min(1.0, abs(x) / largest)))
    return f'<td class="{"p" if x > 0 else "n"}{shade}{mark}">{number(x)}</td>'


def number(x: float) -> str:
    """Two digits after the point; numbers that need more room by their power of ten."""
    if not math.isfinite(x):
        return "NaN" if math.isnan(x) else "∞" if x > 0 else "−∞"
    if 0.005 <= abs(x) < 1e5:
        return f"{x:.{2 if abs(x) < 1000 else 0}f}".replace("-", "−")
    digits, _, power = f"{x:.0e}".partition("e")
    return f"{digits}e{int(power)}".replace("-", "−")
