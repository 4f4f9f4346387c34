"""The first call that a bug changes, without it and with it: its lines, or what a layer hands on, side by side."""

from __future__ import annotations

import ast
import html
import textwrap
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np

from docs.site.matrices import Host, versus
from npformer.pages.bugs import ROUNDING, BugTrace
from npformer.proof.trace import Trace

Call = dict[str, Any]
#: What a layer receives and what it makes, in each pass; a layer has no lines.
KINDS = {"forward": ("inputs", "outputs"), "backward": ("upstream", "gradients", "added")}


class Made(NamedTuple):
    """A number or array that a line has made."""

    function: str
    code: str
    name: str
    value: Host
    returned: bool = False


class Row(NamedTuple):
    """What one line makes without the bug and with it; None where it makes nothing of the name."""

    name: str
    right: Made | None
    wrong: Made | None


def rows(right: Trace, found: BugTrace) -> list[Row]:
    """The lines of the first call that differ."""
    sides = [list(_lines(trace, found)) for trace in (right, found.wrong)]
    keys = [[(each.function, each.name, each.returned) for each in side] for side in sides]
    paired: list[Row] = []
    for word, i, j, k, m in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if word == "equal":
            paired += [Row(a.name, a, b) for a, b in zip(sides[0][i:j], sides[1][k:m], strict=True)]
        else:
            paired += [Row(a.name, a, None) for a in sides[0][i:j]] + [Row(b.name, None, b) for b in sides[1][k:m]]
    differing = [row for row in paired if not _is_same(row)]
    told: list[Row] = []
    for i, row in enumerate(differing):
        if not _is_told_elsewhere(row, told, differing[i + 1 :]):
            told.append(row)
    return told or [Row((a or b).name, a, b) for a, b in _handed(right, found)]


def _is_told_elsewhere(row: Row, before: list[Row], after: list[Row]) -> bool:
    """Whether a line only passes on what lines before it made, or returns what an unchanged line after it gets."""
    sides = [side for side in (row.right, row.wrong) if side is not None]
    returned, changed = all(side.returned for side in sides), len({side.code for side in sides}) > 1
    if changed and not returned:
        return False
    others = before + (after if returned and not changed else [])
    return any(_is_equal(row.right, other.right) and _is_equal(row.wrong, other.wrong) for other in others)


def _is_equal(one: Made | None, other: Made | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.value, other.value, equal_nan=True)


def _is_same(row: Row) -> bool:
    if row.right is None or row.wrong is None or row.right.value.shape != row.wrong.value.shape:
        return False
    a, b = row.right.value, row.wrong.value
    largest = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
    with np.errstate(invalid="ignore"):
        close = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ROUNDING * largest)
    return bool(close.all())


def _lines(trace: Trace, found: BugTrace) -> Iterator[Made]:
    """What the lines of the first call made in one trace; a layer has none."""
    call = trace.calls[found.first.call]
    run = call[found.first.way]
    if run is None or run["function"] is None:
        return
    names = [each["name"] for each in call["gradients" if found.first.way == "backward" else "outputs"]]
    yield from _of_frame(trace, run, names)


def _of_frame(trace: Trace, frame: Any, names: list[str]) -> Iterator[Made]:
    """The values of each line; what it called comes first, as it ran first."""
    file, _, function = frame["function"].partition(".")
    source = trace.document["sources"][file]["functions"][function]
    for line in frame["lines"]:
        for inner in line.get("inside", []):
            yield from _of_frame(trace, inner, [])
        code = statement(source["text"] or "", line["line"] - source["first"])
        for name, value in line["values"].items():
            for shown, array in _arrays(trace, name, value, names):
                yield Made(frame["function"], code, shown, array, name == "return")


def _arrays(trace: Trace, name: str, value: Any, names: list[str]) -> Iterator[tuple[str, Host]]:
    """The arrays and numbers in a value, with their names; those returned have the names of the gradients."""
    if isinstance(value, dict) and "items" in value:
        for i, item in enumerate(value["items"]):
            inner = f"{name}[{i}]" if value["names"] is None else f"{name}.{value['names'][i]}"
            yield from _arrays(trace, (names[i] if name == "return" and i < len(names) else inner), item, [])
        return
    array = _array(trace, value)
    if array is not None:
        yield (names[0] if name == "return" and names else name.replace("return", "returns", 1)), array


def _array(trace: Trace, value: Any) -> Host | None:
    if isinstance(value, str):
        return np.asarray(trace.arrays[value], dtype=np.float64) if value in trace.arrays else None
    if isinstance(value, dict):
        return np.asarray(float(value["number"])) if "number" in value else None
    return np.asarray(float(value)) if isinstance(value, int | float) else None


def _handed(right: Trace, found: BugTrace) -> Iterator[tuple[Made | None, Made | None]]:
    """What differs of a call without lines that differ: what it hands to another call, or what it makes itself."""
    first = found.first
    kinds = KINDS[first.way][1:] if first.handed is None else KINDS[first.way][:1]
    number = first.call if first.handed is None else first.handed
    for kind in kinds:
        for name in found.differences.get(number, {}).get(kind, {}):
            said = f"added to {name}" if kind == "added" else name
            values = [_of_call(trace, number, kind, name) for trace in (right, found.wrong)]
            made = [None if value is None else Made("", "", said, value) for value in values]
            yield made[0], made[1]


def _of_call(trace: Trace, number: int, kind: str, name: str) -> Host | None:
    """One array that a call received or made."""
    key, value = ("parameter", "array") if kind == "added" else ("name", "value")
    listed: Any = trace.calls[number][kind]  # type: ignore[literal-required]
    return next((_array(trace, each[value]) for each in listed if each[key] == name), None)


def statement(text: str, index: int) -> str:
    """The statement that begins at a line of a function's source; of a block, its head."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno == index + 1:
            body = getattr(node, "body", None)
            last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno
            return textwrap.dedent("\n".join(lines[index:last]))
    return lines[index].strip() if index < len(lines) else ""


def shown(found: list[Row]) -> str:
    """The rows as HTML."""
    return f'<div class="versus">{"".join(map(_row, found))}</div>'


def _row(row: Row) -> str:
    sides = (row.right, row.wrong)
    tables = versus(*(None if side is None else side.value for side in sides), row.name)
    codes = ["" if side is None else side.code for side in sides]
    both = codes[0] if codes[0] == codes[1] else ""
    parts = "".join(
        f'<div class="{name}"><b>{name}</b>{"" if both else _code(code)}{table or _NOTHING}</div>'
        for name, code, table in zip(("right", "wrong"), codes, tables, strict=True)
    )
    return f"{_code(both)}{parts}"


_NOTHING = '<p class="nothing">nothing</p>'


def _code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>" if text else ""
