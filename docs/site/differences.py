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


class Row(NamedTuple):
    """What one line makes without the bug and with it; None where it makes nothing of the name."""

    name: str
    right: Made | None
    wrong: Made | None


def rows(right: Trace, found: BugTrace) -> list[Row]:
    """The lines of the first call that differ."""
    sides = [list(_lines(trace, found)) for trace in (right, found.wrong)]
    keys = [[(each.function, each.name) for each in side] for side in sides]
    paired: list[Row] = []
    for word, i, j, k, m in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if word == "equal":
            paired += [Row(a.name, a, b) for a, b in zip(sides[0][i:j], sides[1][k:m], strict=True)]
        else:
            paired += [Row(a.name, a, None) for a in sides[0][i:j]] + [Row(b.name, None, b) for b in sides[1][k:m]]
    return [row for row in paired if not _is_same(row)]


def _is_same(row: Row) -> bool:
    if row.right is None or row.wrong is None or row.right.value.shape != row.wrong.value.shape:
        return False
    a, b = row.right.value, row.wrong.value
    return np.allclose(a, b, rtol=0, atol=ROUNDING * float(np.max(np.abs(a), initial=0.0)), equal_nan=True)


def _lines(trace: Trace, found: BugTrace) -> Iterator[Made]:
    """What the lines of the first call made in one trace, each array once; of a layer, the arrays that differ."""
    call = trace.calls[found.first.call]
    run = call[found.first.way]
    if run is None or run["function"] is None:
        yield from _arrays_of_layer(trace, found)
        return
    names = [each["name"] for each in call["gradients" if found.first.way == "backward" else "outputs"]]
    seen: list[Host] = []
    for made in _of_frame(trace, run, names):
        told = made.name.startswith("returns") or made.name in names
        if told and any(np.array_equal(made.value, other, equal_nan=True) for other in seen):
            continue  # an earlier line has shown it
        seen.append(made.value)
        yield made


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
                yield Made(frame["function"], code, shown, array)


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


def _arrays_of_layer(trace: Trace, found: BugTrace) -> Iterator[Made]:
    """What differs of a layer, or of the call that it hands other numbers to."""
    first = found.first
    number, received = (first.call, False) if first.handed is None else (first.handed, True)
    if number >= len(trace.calls):
        return
    differing = found.differences.get(number, {})
    for kind in KINDS[first.way][:1] if received else KINDS[first.way][1:]:
        key, value = ("parameter", "array") if kind == "added" else ("name", "value")
        for each in trace.calls[number][kind]:  # type: ignore[literal-required]
            array = _array(trace, each[value]) if each[key] in differing.get(kind, {}) else None
            if array is not None:
                yield Made("", "", each[key], array)


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
        f'<div class="{name}">{"" if both else _code(code)}{table or _NOTHING}</div>'
        for name, code, table in zip(("right", "wrong"), codes, tables, strict=True)
    )
    return f"{_code(both)}{parts}"


_NOTHING = '<p class="nothing">no such line</p>'


def _code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>" if text else ""
