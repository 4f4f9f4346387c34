"""The page of a trace: every number of a forward and a backward pass, step by step, in one file.

Left the calls as a tree and as a graph, in the middle the arrays with their numbers, right the formula and the source
with the line that runs, below the timeline. Each entry of a gradient shows the terms that add up to it, and what both
witnesses say. Bugs of the museum can be switched on (``page/bugs.py``).

Its tour goes from the letter that was most wrong, through one gradient, to one weight and back; the last stop changes
the weight and runs the forward again: what the gradient predicts, beside what is measured.

Products: the lines are read as ``npformer explain`` reads them (``explain/products.py``). A gradient whose line is not
read is the sum of its terms with each entry of dy, from the pair's own backward, fed one entry at a time.

Uses: the gradient of a number is the sum over all its uses. Layers move, add and scale gradients between operations, so
where each entry of a returned gradient arrives is found by runs in which it is marked (``explain/graph.py``). Each list
of uses is checked: only if its sum is the recorded gradient, to 1e-12 of the largest, does the page show it.

Witnesses come from the pair's forward alone (``check/oracles.py``): L = Σ dy·y is moved by each entry, once by an
imaginary step and once up and down.

The number at which a page opens is a place of ``npformer explain``, as an entry of the trace's arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.check.fitness import fitness
from npformer.check.inputs import as_tuple
from npformer.check.oracles import Oracle, unit
from npformer.check.subject import Subject
from npformer.errors import NpformerError
from npformer.functional.derivation import for_page
from npformer.io.output_files import write_file
from npformer.see.explain.graph import GradientKey, Marks
from npformer.see.explain.number import GradientAddress
from npformer.see.explain.products import CodeLine, EntrySum, Expansion, Factor, Term, sums_in, terms
from npformer.see.page.bugs import BugTrace
from npformer.see.page.document import Pack, bundle, html_page, web_file
from npformer.see.record.calls import Call, ParameterPart
from npformer.see.record.recording import Recording, Seen
from npformer.see.record.trace import Json, Trace
from npformer.typing import HostArray

#: A sum of uses is as near as this to the recorded gradient, relative to its largest entry.
CLOSE = 1e-12
#: Of a gradient whose line is not read, and of witnesses: up to so many entries times entries of dy.
MOST_TERMS = 100_000
#: So many numbers a page has, before its bugs: about 7 MB. When they are reached no other sums are told.
MOST_PACKED = 720_000
#: Of an array with more numbers the page has statistics, and the rows of the numbers that are asked for.
MOST_NUMBERS = 8_192
#: So many numbers have all these arrays together: about 6 MB of a page.
ALL_NUMBERS = 650_000
#: How far the tour moves a weight.
STEP = 0.01

#: An entry as the page names it: "call", "what" of it ("gradients", "upstream" or "outputs", or a "parameter"), the
#: "name" of its array there, and its number in that, "flat".
OpensAt: TypeAlias = dict[str, Any]


def write_trace_page(
    trace: Trace, path: Path | str, *, bugs: Sequence[BugTrace] = (), opens: OpensAt | None = None
) -> None:
    """Write the page of a trace to path, whole or not at all; bugs are those that the page can switch on.

    opens: the number at which the page opens (``opening``); None: at the first step.

    Terms and witnesses need a trace that was recorded in this process; one that was read from JSON is shown
    without them. Raises OutputError if path cannot be written.
    """
    write_file(Path(path), "the trace's page", trace_page(trace, bugs=bugs, opens=opens).encode())


def trace_page(
    trace: Trace,
    *,
    bugs: Sequence[BugTrace] = (),
    opens: OpensAt | None = None,
    links: Mapping[str, str] | None = None,
) -> str:
    """The page of a trace as text; see write_trace_page.

    links: of a page within others, the address of the page about a source file, by its path; "": of where to start.
    """
    pack = Pack(_most_numbers(trace))
    for name, array in trace.arrays.items():
        pack.add(array, name)
    stops = tour(trace)
    asked = [each for each in (opens, *((stops["loss"], stops["weight"]) if stops else ())) if each is not None]
    for each in asked:
        _keep_rows(trace, pack, each)
    sources = [each.document["sources"] for each in (trace, *(bug.wrong for bug in bugs))]
    data: dict[str, Any] = {
        "trace": trace.document,
        "derivations": {key: for_page(source["doc"]) for each in sources for key, source in each.items()},
        "evidence": _evidence(trace, pack, asked),
        "flows": _flows(trace, pack, asked),
        "sums": packed_sums(trace, pack, asked),
        "bugs": [bug.to_dict(pack) for bug in bugs],
        "opens": opens,
        "tour": stops,
        "links": dict(links or {}),
    }
    data |= {"places": pack.places, "left_out": pack.left_out}
    blocks = {"data": data, "numbers": pack.text()}
    title = str(trace.document["title"])
    return html_page(
        title, style=web_file("trace.css"), script=bundle("main"), data=blocks, body=web_file("trace.html")
    )


def _most_numbers(trace: Trace) -> int:
    """The size up to which arrays are on the page: MOST_NUMBERS, or less if there are many."""
    sizes = np.sort([array.size for array in trace.arrays.values()])
    ends = np.searchsorted(sizes, sizes, "right")  # of each size, where the next begins
    are_fitting = np.cumsum(sizes)[ends - 1] <= ALL_NUMBERS
    return MOST_NUMBERS if np.all(are_fitting) else int(min(MOST_NUMBERS, sizes[are_fitting].max(initial=0)))


def _evidence(trace: Trace, pack: Pack, asked: Sequence[OpensAt]) -> dict[str, Any]:
    """Call -> gradient -> the places of its witnesses."""
    recording, by_number = trace.recording, dict[str, Any]()
    if recording is None:
        return {}

    def packed(numbers: HostArray | None) -> str | None:
        return None if numbers is None else pack.add(numbers, whole=True)

    for call in trace.calls:
        number = call["id"]
        only = next(((each["name"], each["flat"]) for each in asked if each["call"] == number), None)
        names = {
            each["name"]: each["of"]
            for each in call["gradients"]
            if each["value"] not in pack.left_out or (only is not None and only[0] == each["name"])
        }
        by_number[str(number)] = {
            name: {"complex": packed(by_complex), "central": packed(by_central), "only": flat}
            for name, by_complex, by_central, flat in witnessed(
                recording.calls[number], recording.seen[number], names, only
            )
        }
    return by_number


def _flows(trace: Trace, pack: Pack, asked: Sequence[OpensAt]) -> dict[str, Any]:
    """The edges of the graph, and the uses of each upstream gradient and of each gradient that a layer returns.

    Uses whose numbers are left out have no place here, but for the numbers that are asked for.
    """
    flats = {(each["call"], each["what"], each["name"]): each["flat"] for each in asked}
    fan_in: dict[str, dict[str, Any]] = {}
    edges = []
    for (number, what, part), listed in {} if trace.recording is None else uses(trace.recording).items():
        call: Any = trace.calls[number]
        place = (number, what, call[what][part]["name"])
        read = [(use, trace.calls[use.call]["gradients"][use.gradient]) for use in listed]
        if what == "upstream" and call["kind"] == "operation":
            for use, gradient in read:
                names = [entry["name"] for entry in trace.calls[use.call]["inputs"]]
                edges.append((number, use.call, names.index(gradient["of"])))
        arrays = [str(gradient["value"]) for _, gradient in read]
        if place in flats:
            for array, use in zip(arrays, listed, strict=True):
                _keep(trace, pack, array, np.flatnonzero(use.where == flats[place]))
        elif any(array in pack.left_out for array in (_named(trace, *place), *arrays)):
            continue
        fan_in.setdefault(str(number), {})[f"{what}.{place[2]}"] = [
            {"call": use.call, "gradient": gradient["name"], "map": pack.add(use.where, whole=True)}
            for use, gradient in read
        ]
    return {"edges": sorted(edges), "fan_in": fan_in}


def _named(trace: Trace, call: int, what: str, name: str) -> str:
    """The array of a call that has this name there; of "parameter", that gradient."""
    is_whole = what == "parameter"
    listed, key = (trace.document["parameters"], "gradient") if is_whole else (trace.calls[call][what], "value")
    return str(next(each[key] for each in listed if each["name"] == name))


def _keep(trace: Trace, pack: Pack, name: str, flats: Iterable[int]) -> None:
    """Keep the rows of these numbers, if their array is left out."""
    for flat in flats if name in pack.left_out else ():
        pack.keep(name, trace.arrays[name], int(flat))


def _keep_rows(trace: Trace, pack: Pack, asked: OpensAt) -> None:
    """Keep the row of a number that is asked for; of a parameter's, those of all that was added, too."""
    names = {_named(trace, asked["call"], asked["what"], asked["name"])}
    if asked["what"] == "parameter":
        added = (each for call in trace.calls for each in call["added"])
        names |= {str(each["array"]) for each in added if each["parameter"] == asked["name"]}
    for name in names:
        _keep(trace, pack, name, (asked["flat"],))


def opening(trace: Trace, place: GradientAddress) -> OpensAt | None:
    """The entry that shows a place's gradient; None if no array of the trace does.

    A parameter with one use is shown where that operation's backward makes its gradient. One with several uses is
    shown with the whole trace's parameters, as the sum over them.
    """
    if place.kind == "parameter":
        uses = [
            (call, of, ParameterPart(**part))
            for call in trace.calls
            if call["kind"] == "operation"
            for of, parts in call["params"].items()
            for part in parts
            if part["parameter"] == place.name
        ]
        made = _gradient(trace, uses[0][0], uses[0][1], uses[0][2].entry(place.index)) if len(uses) == 1 else None
        return made or _entry(trace, 0, "parameter", place.name, place.index)
    call = trace.calls[0 if place.call is None else place.call.number]
    if place.kind == "output":
        what = "upstream" if call["backward"] else "outputs"
        return _entry(trace, call["id"], what, call[what][place.part]["name"], place.index)
    of = place.name if place.call is None else call["inputs"][place.part]["name"]
    return _gradient(trace, call, of, place.index)


def _gradient(trace: Trace, call: Json, of: str, index: tuple[int, ...]) -> OpensAt | None:
    name = next((entry["name"] for entry in call["gradients"] if entry.get("of") == of), None)
    return None if name is None else _entry(trace, call["id"], "gradients", name, index)


def _entry(trace: Trace, call: int, what: str, name: str, index: tuple[int, ...]) -> OpensAt | None:
    array = trace.arrays.get(_named(trace, call, what, name))
    if array is None or array.ndim != len(index) or any(i >= n for i, n in zip(index, array.shape, strict=True)):
        return None
    flat = int(np.ravel_multi_index(index, array.shape)) if index else 0
    return {"call": call, "what": what, "name": name, "flat": flat}


def tour(trace: Trace) -> dict[str, Any] | None:
    """The stops; None without a recorded loss of tokens whose logits one weight makes."""
    recording = trace.recording
    if recording is None or recording.how is None:
        return None
    loss, seen = recording.calls[-1], recording.seen[-1]
    logits, targets, p = np.asarray(seen.inputs[0]), np.asarray(seen.inputs[1]), np.asarray(seen.cache.p)
    made = _maker(recording, logits)
    if logits.ndim != 3 or made is None:
        return None
    of_target = np.take_along_axis(p, targets[..., None].astype(np.int64), axis=-1)[..., 0]
    counted = np.asarray(seen.cache.counted)[..., 0] > 0
    at = np.unravel_index(np.argmin(np.where(counted, of_target, np.inf)), targets.shape)
    target = int(targets[at])
    weight = _weight(recording, made, target)
    if weight is None:
        return None
    return weight | {
        "target": target,
        "p": float(of_target[at]),
        "wrote": int(np.argmax(logits[at])),
        "loss": {
            "call": loss.number,
            "what": "gradients",
            "name": "dlogits",
            "flat": int(np.ravel_multi_index((*at, target), logits.shape)),
        },
    }


def _maker(recording: Recording, logits: HostArray) -> Call | None:
    """The linear map that made the logits."""
    for call, seen in zip(recording.calls, recording.seen, strict=True):
        is_one = call.operation == "linear" and len(seen.params.get(1, ())) == 1
        if is_one and np.array_equal(np.reshape(seen.output, -1), logits.reshape(-1)):
            return call
    return None


def _weight(recording: Recording, call: Call, column: int) -> dict[str, Any] | None:
    """The weight of this column with the largest gradient, and what a small step of it changes."""
    (part,) = recording.seen[call.number].params[1]
    gradient = np.asarray(recording.gradients[part.parameter])
    gradient = gradient.T if part.transposed else gradient
    shape = np.shape(recording.seen[call.number].inputs[1])
    if gradient.shape != shape:
        return None
    row = int(np.argmax(np.abs(gradient[:, column])))
    number = float(gradient[row, column])
    index = (column, row) if part.transposed else (row, column)
    step = -STEP if number > 0 else STEP
    moved = np.array(recording.checked.tensors[part.parameter], dtype=np.float64)
    moved[index] += step
    measured = float(np.real(recording.value({part.parameter: moved}))) - recording.loss
    flat = int(np.ravel_multi_index((row, column), shape))
    return {
        "weight": {"call": call.number, "what": "gradients", "name": "dweight", "flat": flat},
        "parameter": f"{part.parameter}[{index[0]},{index[1]}]",
        "gradient": number,
        "step": step,
        "predicted": step * number,
        "measured": measured,
    }


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
    for (sign, labels), group in groupby(
        expansion.terms, lambda term: (term.sign, [x.label or x.text for x in term.factors])
    ):
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


def witnessed(
    call: Call, seen: Seen, names: Mapping[str, str], only: tuple[str, int] | None
) -> Iterator[tuple[str, HostArray | None, HostArray | None, int | None]]:
    """What both witnesses say of each gradient of an operation's call: (name, complex step, differences, entry).

    One is None where the forward cannot be asked; so is the entry where all are told. names: of the gradients shown,
    with the input that each belongs to. only: the gradient and the flat index of the entry that is asked where there
    are too many to ask them all.
    """
    if not isinstance(call.target, tuple) or seen.upstream is None:
        return
    upstream = tuple(np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream))
    checked = Subject(call.target, seen.inputs, call.options, None)
    sizes = {name: checked.tensors[of].size for name, of in names.items() if of in checked.tensors}
    asked: dict[str, int | None] = dict.fromkeys(sizes)
    if sum(sizes.values()) * sum(part.size for part in upstream) > MOST_TERMS:
        asked = {} if only is None or only[0] not in sizes else dict([only])
    if not asked:
        return
    oracle = Oracle(checked, [upstream], fitness(checked, [upstream], 0).is_fit)
    for name, flat in asked.items():
        shape = checked.tensors[names[name]].shape
        try:
            if flat is not None:
                along = oracle.along(names[name], unit(shape, np.unravel_index(flat, shape)))
                yield name, *along[:2], flat
            else:
                both = oracle.evidence(names[name])
                yield name, None if both.by_complex is None else both.by_complex[0], both.by_central[0], None
        except (NpformerError, ArithmeticError, ValueError, TypeError):  # the forward fails where they ask
            yield name, None, None, None
