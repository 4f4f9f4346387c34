"""What a trace's page tells of each number: the products that made it, the uses that its gradient is, its witnesses.

Products: the lines are read as ``npformer explain`` reads them (``explain/products.py``). A gradient whose line is not
read is the sum of its terms with each entry of dy, from the pair's own backward, fed one entry at a time.

Uses: the gradient of a number is the sum over all its uses. Layers move, add and scale gradients between operations, so
where each entry of a returned gradient arrives is found by runs in which it is marked (``explain/graph.py``). Each list
of uses is checked: only if its sum is the recorded gradient, to 1e-12 of the largest, does the page show it.

Witnesses come from the pair's forward alone (``check/oracles.py``): L = Σ dy·y is moved by each entry, once by an
imaginary step and once up and down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypedDict

import numpy as np

from npformer.check.fitness import fitness
from npformer.check.inputs import as_tuple
from npformer.check.oracles import Oracle, unit
from npformer.check.subject import Subject
from npformer.errors import NpformerError
from npformer.see.explain.graph import GradientKey, Marks
from npformer.see.explain.products import CodeLine, EntrySum, Expansion, Factor, Term, sums_in, terms
from npformer.see.page.document import Pack
from npformer.see.record.calls import Call
from npformer.see.record.recording import Recording, Seen
from npformer.see.record.trace import Json, Trace
from npformer.typing import HostArray

#: A sum of uses is as near as this to the recorded gradient, relative to its largest entry.
CLOSE = 1e-12
#: Of a gradient whose line is not read, and of witnesses: up to so many entries times entries of dy.
MOST_TERMS = 100_000
#: So many numbers a page has, before its bugs: about 7 MB. When they are reached no other sums are told.
MOST_PACKED = 720_000


class OpensAt(TypedDict):
    """An entry as the page names it: of a call's "gradients", "upstream" or "outputs", or of a "parameter"."""

    call: int
    what: str
    name: str
    flat: int


def packed_sums(trace: Trace, pack: Pack, asked: Sequence[OpensAt]) -> dict[str, Any]:
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


def _of_call(
    trace: Trace, call: Call, seen: Seen, told: Json, asked: Sequence[OpensAt]
) -> Iterator[tuple[str, EntrySum]]:
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


def _by_upstream(call: Call, seen: Seen, told: Json, of: str, array: HostArray) -> Iterator[EntrySum]:
    """The terms with each entry of dy, as slope times dy."""
    parts = [np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream)]
    if array.size * sum(part.size for part in parts) > MOST_TERMS:
        return
    products = []
    for entry, dy, added in zip(
        told["upstream"], parts, terms(call.target, seen.cache, seen.upstream, of), strict=True
    ):
        flat = np.broadcast_to(np.reshape(dy, -1), (array.size, dy.size))
        slope = np.divide(added.reshape(flat.shape), flat, out=np.zeros(flat.shape), where=flat != 0)
        for number, at in enumerate(np.ndindex(dy.shape)):
            slopes = _whole(f"∂y/∂{of}", slope, (np.arange(array.size), number))
            products.append(Term(1.0, (slopes, _whole(entry["name"], dy, at))))
    expansion = Expansion(CodeLine("", 0, ""), tuple(products), None, total=array.reshape(-1))
    yield EntrySum(array, np.arange(array.size), expansion)


def _whole(label: str, x: HostArray, at: tuple[Any, ...]) -> Factor:
    return Factor(label, None, None, at, x.shape, label, x)


def _packed(one: EntrySum, pack: Pack) -> dict[str, Any] | None:
    """A sum by the names of its arrays in the pack; None if it needs too many numbers of arrays that are left out.

    of: its entries, null for all; total: null for the numbers. Terms of one form are told together.
    """
    (array, entries, expansion), products = one, []
    if entries.size > 1 and pack.add(array) in pack.left_out:
        return None
    for (sign, labels), group in groupby(expansion.terms, lambda term: (term.sign, [_label(x) for x in term.factors])):
        rows = [term.factors for term in group]
        factors = [
            _factors(label, x, entries.size, pack) for label, x in zip(labels, zip(*rows, strict=True), strict=True)
        ]
        if None in factors:
            return None
        products.append([len(rows), sign, factors])
    total = np.broadcast_to(expansion.total, entries.shape)
    return {
        "of": None if entries.size == array.size else pack.add(entries),
        "line": expansion.line.number,
        "code": expansion.line.code,
        "around": expansion.around,
        "total": pack.add(total) if expansion.around else None,
        "products": products,
    }


def _label(factor: Factor) -> str:
    return factor.label or factor.text


def _factors(label: str, factors: Sequence[Factor], count: int, pack: Pack) -> list[Any] | None:
    """One factor of several products: its text, its array, its place in it for each product and entry, if it divides.

    Of an array that is left out, the factors are told themselves; None if it is of many entries.
    """
    first = factors[0]
    if first.array is None:  # a number by itself
        x, at = np.asarray(first.value), np.zeros((1, 1), dtype=np.int64)
    else:
        x = np.asarray(first.array, dtype=np.float64)
        places = [np.ravel_multi_index(factor.at, factor.shape) if factor.shape else 0 for factor in factors]
        at = np.stack([np.broadcast_to(place, (count,)) for place in places])
        at = at[:, :1] if np.all(at == at[:, :1]) else at
        at = at[:1] if np.all(at == at[:1]) else at
    name = pack.add(x)
    is_out = name in pack.left_out
    if is_out and count > 1:
        return None
    told = [label, name, pack.add(at, whole=True), first.array is not None and first.is_below]
    return [*told, pack.add(x.reshape(-1)[at], whole=True)] if is_out else told


class Use(NamedTuple):
    """A use of numbers: the call that reads them, which of its gradients is theirs, and of which number each entry is.

    The numbers are told by their flat indices, −1 for none of them.
    """

    call: int
    gradient: int
    where: HostArray


def uses(recording: Recording) -> dict[GradientKey, list[Use]]:
    """The uses that add up to each upstream gradient, and to each gradient that a layer returns."""
    wanted: dict[GradientKey, HostArray] = {}
    totals: dict[GradientKey, HostArray] = {}
    for call, seen in zip(recording.calls, recording.seen, strict=True):
        for way, x in (("upstream", seen.upstream), ("gradients", None if call.operation else seen.gradients)):
            for part, total in enumerate(() if x is None else as_tuple(x)):
                if total is not None:
                    totals[call.number, way, part] = np.asarray(recording.checked.device.host(total)).reshape(-1)
                    wanted[call.number, way, part] = np.arange(np.size(total))
    found: dict[GradientKey, dict[int, HostArray]] = {}
    with recording.ready():
        marks = Marks(recording)
        for key, flats, arrived, _ in marks.between(0, marks.count, wanted):
            which = np.searchsorted(marks.starts, arrived, "right") - 1
            for one in map(int, np.unique(which)):
                nothing = np.full(int(np.prod(marks.returned[one][2])), -1)
                where = found.setdefault(key, {}).setdefault(one, nothing)
                where[arrived[which == one] - marks.starts[one]] = flats[which == one]
    kept = {}
    for key, by_gradient in found.items():
        added, listed = np.zeros(totals[key].size), []
        for one, where in by_gradient.items():
            call, number, _ = marks.returned[one]
            gradient = np.reshape(as_tuple(recording.seen[call.number].gradients)[number], -1)
            np.add.at(added, where[where >= 0], gradient[where >= 0])
            listed.append(Use(call.number, number, where))
        worst = np.max(np.abs(added - totals[key]), initial=0.0)
        if worst <= CLOSE * max(float(np.max(np.abs(totals[key]), initial=0.0)), CLOSE):
            kept[key] = listed
    return kept


class Witnesses(NamedTuple):
    """What both witnesses say of one gradient, or of the one entry of it that was asked for."""

    by_complex: HostArray | None  # None: the forward cannot be asked with complex numbers
    by_central: HostArray | None  # None: it cannot be asked at all
    only: int | None = None  # the entry that was asked


def evidence_of(
    call: Call, seen: Seen, names: Mapping[str, str], only: tuple[str, int] | None = None
) -> dict[str, Witnesses]:
    """Gradient's name -> what its witnesses say, for a recorded call of an operation whose backward ran.

    seen: the call's arrays. names: of the gradients shown, with the input that each belongs to. only: the gradient and
    the flat index of the entry that is asked where there are too many to ask them all.
    """
    if not isinstance(call.target, tuple) or seen.upstream is None:
        return {}
    upstream = tuple(np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream))
    checked = Subject(call.target, seen.inputs, call.options, None)
    sizes = {name: checked.tensors[of].size for name, of in names.items() if of in checked.tensors}
    if sum(sizes.values()) * sum(part.size for part in upstream) <= MOST_TERMS:
        asked: list[tuple[str, int | None]] = [(name, None) for name in sizes]
    else:
        asked = [] if only is None or only[0] not in sizes else [only]
    if not asked:
        return {}
    oracle, shown = Oracle(checked, [upstream], fitness(checked, [upstream], 0).is_fit), {}
    for name, flat in asked:
        shape = checked.tensors[names[name]].shape
        try:
            if flat is not None:
                along = oracle.along(names[name], unit(shape, np.unravel_index(flat, shape)))
                shown[name] = Witnesses(*along[:2], flat)
            else:
                both = oracle.every_element(names[name])
                shown[name] = Witnesses(None if both.by_complex is None else both.by_complex[0], both.by_central[0])
        except (NpformerError, ArithmeticError, ValueError, TypeError):  # the forward fails where they ask
            shown[name] = Witnesses(None, None)
    return shown
