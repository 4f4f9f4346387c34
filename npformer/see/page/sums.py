"""How each number of a trace was made, for its page: the products of the line that made it, as places of arrays.

The lines are read as ``npformer explain`` reads them (``explain/sums.py``). A gradient whose line is not read is the
sum of its terms with each entry of dy, from the pair's own backward, fed one entry at a time (``tracing/jacobian.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import numpy as np

from npformer.check.inputs import as_tuple
from npformer.see.explain.sums import Operand, Products, Sum, sums_in
from npformer.see.page.document import Pack
from npformer.see.record import Trace
from npformer.see.record.jacobian import terms
from npformer.see.record.listening import Call
from npformer.see.record.recording import Seen
from npformer.see.record.schema import CallOf
from npformer.typing import HostArray

#: Of a gradient whose line is not read, and of witnesses: up to so many entries times entries of dy.
MOST_TERMS = 100_000
#: So many numbers a page has, before its bugs: about 7 MB. When they are reached no other sums are told.
MOST_PACKED = 720_000


class Opening(TypedDict):
    """An entry as the page names it: of a call's "gradients", "upstream" or "outputs", or of a "parameter"."""

    call: int
    what: str
    name: str
    flat: int


def packed_sums(trace: Trace, pack: Pack, asked: Sequence[Opening]) -> dict[str, Any]:
    """Call -> pass -> array -> how its entries were made. asked: the numbers that are told in any case."""
    if trace.recording is None:
        return {}
    by_number: dict[str, Any] = {}
    told_calls = trace.document["calls"]
    for call, seen, told in reversed(list(zip(trace.recording.calls, trace.recording.seen, told_calls, strict=True))):
        here = [each for each in asked if each["call"] == call.number]
        ways = by_number[str(call.number)] = {"forward": {}, "backward": {}}
        for way, one in _of_call(trace, call, seen, told, here):
            is_full = pack.length >= MOST_PACKED and one.entries.size > 1
            packed = None if is_full else _packed(one, pack)
            if packed is not None:
                ways[way].setdefault(pack.add(one.array), []).append(packed)
    return by_number


def _of_call(trace: Trace, call: Call, seen: Seen, told: CallOf, asked: Sequence[Opening]) -> Iterator[tuple[str, Sum]]:
    known = set()
    for way, frame in (("forward", seen.forward), ("backward", seen.backward)):
        for one in () if frame is None else sums_in(frame):
            known.add((way, one.array.shape, one.array.tobytes()))
            yield way, one
    if not isinstance(call.target, tuple) or told["backward"] is None:
        return
    for gradient in told["gradients"]:
        array = trace.arrays.get(str(gradient["value"]))
        flats = {each["flat"] for each in asked if each["name"] == gradient["name"]}
        is_known = array is not None and ("backward", array.shape, array.tobytes()) in known
        if array is None or (is_known and not flats):
            continue
        one_by_one = [sums_in(seen.backward, entry=(array, flat)) for flat in flats if seen.backward is not None]
        rest = [one for sums in one_by_one for one in sums]
        yield from (("backward", one) for one in rest or _by_upstream(call, seen, told, gradient["of"], array))


def _by_upstream(call: Call, seen: Seen, told: CallOf, of: str, array: HostArray) -> Iterator[Sum]:
    """The terms with each entry of dy, as slope times dy."""
    parts = [np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream)]
    if array.size * sum(part.size for part in parts) > MOST_TERMS:
        return
    products = []
    for entry, dy, added in zip(
        told["upstream"], parts, terms(call.target, seen.cache, seen.upstream)[of], strict=True
    ):
        flat = np.broadcast_to(np.reshape(dy, -1), (array.size, dy.size))
        slope = np.divide(added.reshape(flat.shape), flat, out=np.zeros(flat.shape), where=flat != 0)
        slopes = Operand(f"∂y/∂{of}", slope, np.arange(slope.size).reshape(slope.shape).T, False)
        all_dy = Operand(entry["name"], dy, np.arange(dy.size)[:, None], False)
        products.append(Products(dy.size, 1.0, (slopes, all_dy)))
    yield Sum(array, np.arange(array.size), 0, "", tuple(products), "", array.reshape(-1))


def _packed(one: Sum, pack: Pack) -> dict[str, Any] | None:
    """A sum by the names of its arrays in the pack; None if it needs too many numbers of arrays that are left out.

    of: its entries, null for all; total: null for the numbers. Of an array that is left out, the factors are told
    themselves.
    """
    if one.entries.size > 1 and pack.add(one.array) in pack.left_out:
        return None
    products: list[Any] = []
    for each in one.products:
        factors: list[Any] = []
        for x in each.factors:
            name = pack.add(x.array)
            is_out = name in pack.left_out
            if is_out and one.entries.size > 1:
                return None
            factors.append([x.text, name, pack.add(x.at, whole=True), x.is_below])
            if is_out:
                factors[-1].append(pack.add(x.array.reshape(-1)[x.at], whole=True))
        products.append([each.times, each.sign, factors])
    return {
        "of": None if one.entries.size == one.array.size else pack.add(one.entries),
        "line": one.line,
        "code": one.code,
        "around": one.around,
        "total": pack.add(one.total) if one.around else None,
        "products": products,
    }
