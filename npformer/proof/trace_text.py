"""A trace as text: its calls, as a tree."""

from __future__ import annotations

from npformer.proof.measures import max_abs
from npformer.proof.trace_json import CallOf, Document, Named
from npformer.typing import HostArrays
from npformer.visible import visible


def text_of(document: Document, arrays: HostArrays) -> str:
    """A line for each call: its output's shape and largest entry, and the largest entry of its upstream gradient."""
    lines = [visible(document["title"]), _row("call", "output", "largest", "upstream")]
    depths: dict[int | None, int] = {None: -1}
    for call in document["calls"]:
        depth = depths[call["id"]] = depths[call["parent"]] + 1
        shape, largest = _told(call["outputs"], arrays)
        _, upstream = _told(call["upstream"], arrays)
        shown = f"{'  ' * depth}{visible(_label(call, document['target']))}"
        lines.append(_row(shown, shape, largest, upstream))
    told = f"{document['loss']:.6g}" if isinstance(document["loss"], float) else "no finite number"
    loss = f"loss {told}" if document["targets"] else f"L = Σ dy·y = {told}"
    size = sum(x.nbytes for x in arrays.values())
    count = "1 call" if len(document["calls"]) == 1 else f"{len(document['calls'])} calls"
    lines.append(f"{loss}; {count}, {len(arrays)} arrays, {size:,} bytes of numbers")
    return "\n".join(lines)


def _row(call: str, *others: str) -> str:
    return "  ".join([f"{call:<60}", *(f"{word:>12}" for word in others)])


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
