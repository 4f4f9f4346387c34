"""How each number of a trace was made, for its page: the products of the line that made it, as places of arrays.

The lines are read as ``npformer explain`` reads them (``explain/sums.py``). A gradient whose line is not read is the
sum of its terms with each entry of dy, from the pair's own backward, fed one entry at a time (``tracing/jacobian.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import numpy as np

from npformer.check.inputs import as_tuple
from npformer.explain.sums import Sum, by_upstream, sums_in
from npformer.pages.document import Pack
from npformer.tracing import Trace
from npformer.tracing.jacobian import terms
from npformer.tracing.listening import Call
from npformer.tracing.recording import Seen
from npformer.tracing.schema import CallOf

#: Of a gradient whose line is not read, and of witnesses: up to so many entries times entries of dy.
MOST_TERMS = 100_000


class Opening(TypedDict):
    """An entry as the page names it: of a call's "gradients", "upstream" or "outputs", or of a "parameter"."""

    call: int
    what: str
    name: str
    flat: int


def packed_sums(trace: Trace, pack: Pack, opens: Opening | None) -> dict[str, Any]:
    """Call -> pass -> array -> how its entries were made. opens: the number that is told in any case."""
    if trace.recording is None:
        return {}
    by_number: dict[str, Any] = {}
    for call, seen, told in zip(trace.recording.calls, trace.recording.seen, trace.document["calls"], strict=True):
        here = opens if opens is not None and opens["call"] == call.number else None
        ways = by_number[str(call.number)] = {"forward": {}, "backward": {}}
        for way, one in _of_call(trace, call, seen, told, here):
            packed = _packed(one, pack)
            if packed is not None:
                ways[way].setdefault(pack.add(one.array), []).append(packed)
    return by_number


def _of_call(trace: Trace, call: Call, seen: Seen, told: CallOf, opens: Opening | None) -> Iterator[tuple[str, Sum]]:
    known = set()
    for way, frame in (("forward", seen.forward), ("backward", seen.backward)):
        for one in () if frame is None else sums_in(frame):
            known.add((way, one.array.shape, one.array.tobytes()))
            yield way, one
    if not isinstance(call.target, tuple) or told["backward"] is None:
        return
    for gradient in told["gradients"]:
        array = trace.arrays.get(str(gradient["value"]))
        asked = opens["flat"] if opens is not None and opens["name"] == gradient["name"] else None
        is_known = array is not None and ("backward", array.shape, array.tobytes()) in known
        if array is None or (is_known and asked is None):
            continue
        rest = [] if asked is None or seen.backward is None else list(sums_in(seen.backward, entry=(array, asked)))
        yield from (("backward", one) for one in rest or _by_upstream(call, seen, told, gradient["of"], array))


def _by_upstream(call: Call, seen: Seen, told: CallOf, of: str, array: Any) -> Iterator[Sum]:
    parts = [np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream)]
    if array.size * sum(part.size for part in parts) > MOST_TERMS:
        return
    added = terms(call.target, seen.cache, seen.upstream)[of]
    names = [entry["name"] for entry in told["upstream"]]
    yield by_upstream(array, of, zip(names, parts, added, strict=True))


def _packed(one: Sum, pack: Pack) -> dict[str, Any] | None:
    """A sum by the names of its arrays in the pack; None if it needs too many numbers of arrays that are left out.

    of: its entries, null for all; total: null for the numbers. Of an array that is left out, the factors are told
    themselves.
    """
    products: list[Any] = []
    for each in one.products:
        factors: list[Any] = []
        for x in each.factors:
            name = pack.add(x.array)
            is_out = name in pack.left_out
            if is_out and one.entries.size > 1:
                return None
            factors.append([x.text, name, pack.add(x.at), x.is_below])
            if is_out:
                factors[-1].append(pack.add(x.array.reshape(-1)[x.at]))
        products.append([each.times, each.sign, factors])
    return {
        "of": None if one.entries.size == one.array.size else pack.add(one.entries),
        "line": one.line,
        "code": one.code,
        "around": one.around,
        "total": pack.add(one.total) if one.around else None,
        "products": products,
    }
