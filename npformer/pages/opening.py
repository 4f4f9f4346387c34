"""The number at which a page opens: a place of ``npformer explain``, as an entry of the trace's arrays."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from npformer.explain.graph import index_in
from npformer.explain.place import Place
from npformer.proof import Trace
from npformer.proof.trace_json import CallOf, Named


class Opening(TypedDict):
    """An entry as the page names it: of a call's "gradients", "upstream" or "outputs", or of a "parameter"."""

    call: int
    what: str
    name: str
    flat: int


def opening(trace: Trace, place: Place) -> Opening | None:
    """The entry that shows a place's gradient; None if no array of the trace does.

    A parameter with one use is shown where that operation's backward makes its gradient. One with several uses is
    shown with the whole trace's parameters, as the sum over them.
    """
    calls = trace.document["calls"]
    if place.kind == "parameter":
        return _parameter(trace, place)
    call = calls[0 if place.call is None else place.call.number]
    if place.kind == "output":
        came = call["upstream"] if call["backward"] else call["outputs"]
        return _entry(trace, call, "upstream" if call["backward"] else "outputs", came[place.part]["name"], place.index)
    of = place.name if place.call is None else call["inputs"][place.part]["name"]
    return _gradient(trace, call, of, place.index)


def _parameter(trace: Trace, place: Place) -> Opening:
    """Where an operation's backward makes it, or among the parameters."""
    uses = [
        (call, of, part)
        for call in trace.document["calls"]
        if call["kind"] == "operation"
        for of, parts in call["params"].items()
        for part in parts
        if part["parameter"] == place.name
    ]
    if len(uses) == 1:
        ((call, of, part),) = uses
        found = _gradient(trace, call, of, index_in(place.index, part["columns"], part["transposed"]))
        if found is not None:
            return found
    gradient = next(each["gradient"] for each in trace.document["parameters"] if each["name"] == place.name)
    flat = _flat(place.index, trace.arrays[gradient].shape)
    return {"call": 0, "what": "parameter", "name": place.name, "flat": flat}


def _gradient(trace: Trace, call: CallOf, of: str, index: tuple[int, ...]) -> Opening | None:
    name = next((entry["name"] for entry in call["gradients"] if entry.get("of") == of), None)
    return None if name is None else _entry(trace, call, "gradients", name, index)


def _entry(trace: Trace, call: CallOf, what: str, name: str, index: tuple[int, ...]) -> Opening | None:
    lists: dict[str, list[Named]] = {key: call[key] for key in ("outputs", "upstream", "gradients")}
    value = next(entry["value"] for entry in lists[what] if entry["name"] == name)
    array = trace.arrays.get(value) if isinstance(value, str) else None
    if array is None or array.ndim != len(index) or any(i >= n for i, n in zip(index, array.shape, strict=True)):
        return None
    return {"call": call["id"], "what": what, "name": name, "flat": _flat(index, array.shape)}


def _flat(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(index, shape)) if index else 0
