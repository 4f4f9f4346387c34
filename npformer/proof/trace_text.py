"""A trace as text: its calls, as a tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from npformer.proof.measures import max_abs
from npformer.proof.trace_json import CallOf, Document, Named
from npformer.typing import HostArrays
from npformer.visible import visible

HEADER = ("call", "output", "largest", "upstream")


def text_of(document: Document, arrays: HostArrays, width: int | None = None) -> str:
    """A line for each call: its output's shape and largest entry, and the largest entry of its upstream gradient.

    width: of the terminal; None: as wide as it gets. On a narrow terminal, a name leaves out that of the call around
    it, and a name that is too long has a line of its own.
    """
    rows = list(_rows(document, arrays))
    widths = [max(map(len, column)) for column in zip(HEADER[1:], *(row.numbers for row in rows), strict=True)]
    room = (width or math.inf) - sum(widths) - 2 * len(widths)
    names = [row.full for row in rows]
    if max(map(len, names)) > room:
        names = [row.short for row in rows]
    first = max(len(name) for name in (HEADER[0], *names) if len(name) <= room)
    lines = [visible(document["title"])]
    for name, numbers in ((HEADER[0], HEADER[1:]), *zip(names, (row.numbers for row in rows), strict=True)):
        if len(name) > first:
            lines.append(name)
        cells = [number.rjust(wide) for number, wide in zip(numbers, widths, strict=True)]
        lines.append("  ".join([("" if len(name) > first else name).ljust(first), *cells]))
    return "\n".join([*lines, _summary(document, arrays)])


class _Row(NamedTuple):
    """A call: its name, the same without that of the call around it, and its numbers."""

    full: str
    short: str
    numbers: tuple[str, ...]


def _rows(document: Document, arrays: HostArrays) -> Iterator[_Row]:
    depths: dict[int | None, int] = {None: -1}
    names: dict[int | None, str] = {None: ""}
    for call in document["calls"]:
        depth = depths[call["id"]] = depths[call["parent"]] + 1
        name = names[call["id"]] = call["name"]
        shape, largest = _told(call["outputs"], arrays)
        _, upstream = _told(call["upstream"], arrays)
        full, margin = visible(_label(call, document["target"])), "  " * depth
        around = names[call["parent"]]
        own = full[len(visible(around)) :] if around and name.startswith(f"{around}.") else full
        yield _Row(margin + full, margin + own, (shape, largest, upstream))


def _summary(document: Document, arrays: HostArrays) -> str:
    told = f"{document['loss']:.6g}" if isinstance(document["loss"], float) else "no finite number"
    loss = f"loss {told}" if document["targets"] else f"L = Σ dy·y = {told}"
    size = sum(x.nbytes for x in arrays.values())
    count = "1 call" if len(document["calls"]) == 1 else f"{len(document['calls'])} calls"
    return f"{loss}; {count}, {len(arrays)} arrays, {size:,} bytes of numbers"


def _label(call: CallOf, target: str) -> str:
    again = f" ({call['use']})" if call["use"] > 1 else ""
    return f"{call['name'] or target}{again}"


def _told(values: list[Named], arrays: HostArrays) -> tuple[str, str]:
    """The shape and the largest entry of the first array."""
    for each in values:
        if isinstance(each["value"], str):
            x = arrays[each["value"]]
            return "×".join(map(str, x.shape)) or "()", f"{max_abs(x):.3g}"
    return "", "–"
