"""The page of a trace: every number of a forward and a backward pass, step by step, in one file.

Left the calls as a tree and as a graph, in the middle the arrays with their numbers, right the formula and the source
with the line that runs, below the timeline. Each entry of a gradient shows the terms that add up to it, and what both
witnesses say. Bugs of the museum can be switched on (``page/bugs.py``).

What it tells of each number is in ``evidence.py``. Its tour goes from the letter that was most wrong, through one
gradient, to one weight and back; the last stop changes the weight and runs the forward again: what the gradient
predicts, beside what is measured.

The number at which a page opens is a place of ``npformer explain``, as an entry of the trace's arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from npformer.functional.derivation import for_page
from npformer.io.output_files import write_file
from npformer.see.explain.number import GradientAddress
from npformer.see.page.bugs import BugTrace
from npformer.see.page.document import Pack, bundle, html_page, web_file
from npformer.see.page.evidence import OpensAt, evidence_of, packed_sums, uses
from npformer.see.record.calls import Call, ParameterPart
from npformer.see.record.recording import Recording
from npformer.see.record.trace import Json, Trace
from npformer.typing import HostArray


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


#: Of an array with more numbers the page has statistics, and the rows of the numbers that are asked for.
MOST_NUMBERS = 8_192
#: So many numbers have all these arrays together: about 6 MB of a page.
ALL_NUMBERS = 650_000


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
        found = evidence_of(recording.calls[number], recording.seen[number], names, only).items()
        by_number[str(number)] = {
            name: {"complex": packed(each.by_complex), "central": packed(each.by_central), "only": each.only}
            for name, each in found
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
        what: Literal["upstream", "outputs"] = "upstream" if call["backward"] else "outputs"
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


#: How far the tour moves a weight.
STEP = 0.01


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
