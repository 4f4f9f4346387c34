"""The page of a trace: every number of a forward and a backward pass, step by step, in one file.

Left the calls as a tree and as a graph, in the middle the arrays with their numbers, right the formula and the source
with the line that runs, below the timeline. Each entry of a gradient shows the terms that add up to it, and what both
witnesses say. Bugs of the museum can be switched on (``pages/bugs.py``).

Terms come from the pair's own backward (``proof/jacobian.py``), fed one entry of the upstream gradient at a time.
Witnesses come from the pair's forward alone (``proof/oracles.py``): L = Σ dy·y is moved by each entry, once by an
imaginary step and once up and down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npformer.atomic import describe, write_atomically
from npformer.errors import NpformerError, OutputError
from npformer.pages.bugs import BugTrace
from npformer.pages.document import bundle, html_page, web_file
from npformer.pages.flows import Flows
from npformer.pages.opening import Opening
from npformer.pages.packing import Pack
from npformer.proof import Trace
from npformer.proof.fitness import fitness
from npformer.proof.inputs import as_tuple
from npformer.proof.jacobian import terms
from npformer.proof.listening import Call
from npformer.proof.oracles import Evidence, Oracle
from npformer.proof.recording import Seen
from npformer.proof.subject import subject
from npformer.typing import HostArray

#: The gradients of a call with more terms than this (entries times entries of dy) are shown without evidence.
MOST_TERMS = 100_000


def write_trace_page(
    trace: Trace, path: Path | str, *, bugs: Sequence[BugTrace] = (), opens: Opening | None = None
) -> None:
    """Write the page of a trace to path, whole or not at all; bugs are those that the page can switch on.

    opens: the number at which the page opens (``pages/opening.py``); None: at the first step.

    Terms and witnesses need a trace that was recorded in this process; one that was read from JSON is shown
    without them. Raises OutputError if path cannot be written.
    """
    page = trace_page(trace, bugs=bugs, opens=opens)
    try:
        write_atomically(Path(path), page.encode("utf-8"))
    except OSError as error:
        raise OutputError(f"{path}: expected a path that can be written, got: {describe(error)}") from error


def trace_page(trace: Trace, *, bugs: Sequence[BugTrace] = (), opens: Opening | None = None) -> str:
    """The page of a trace as text; see write_trace_page."""
    pack = Pack()
    for name, array in trace.arrays.items():
        pack.add(array, name)
    data: dict[str, Any] = {
        "trace": trace.document,
        "evidence": _evidence(trace, pack),
        "flows": _flows(trace, pack),
        "bugs": [bug.to_dict(pack) for bug in bugs],
        "opens": opens,
        "most_terms": MOST_TERMS,
    }
    data["places"] = pack.places
    blocks = {"data": data, "numbers": pack.text()}
    title = str(trace.document["title"])
    return html_page(
        title, style=web_file("trace.css"), script=bundle("main"), data=blocks, body=web_file("trace.html")
    )


class Shown(NamedTuple):
    """What stands beside one gradient."""

    terms: tuple[HostArray, ...]  # (gradient's entries…, dy's entries…) for each output
    by_complex: HostArray | None  # None: the forward cannot be asked with complex numbers
    by_central: HostArray | None  # None: it cannot be asked at all


def evidence_of(call: Call, seen: Seen, names: Mapping[str, str]) -> dict[str, Shown]:
    """Gradient's name -> what stands beside it, for a recorded call of an operation whose backward ran.

    seen: the call's arrays. names: of the gradients shown, with the input that each belongs to.
    """
    if not isinstance(call.target, tuple) or seen.upstream is None:
        return {}
    upstream = tuple(np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream))
    checked = subject(call.target, seen.inputs, call.options, None)
    sizes = {name: checked.tensors[of].size for name, of in names.items() if of in checked.tensors}
    if sum(sizes.values()) * sum(part.size for part in upstream) > MOST_TERMS:
        return {}
    split = terms(call.target, seen.cache, seen.upstream)
    oracle = Oracle(checked, [upstream], fitness(checked, [upstream], 0).is_fit)
    shown = {}
    for name in sizes:
        found = _asked(oracle, names[name])
        by_complex = None if found is None or found.by_complex is None else found.by_complex[0]
        shown[name] = Shown(split.get(names[name], ()), by_complex, None if found is None else found.by_central[0])
    return shown


def _asked(oracle: Oracle, of: str) -> Evidence | None:
    """Both witnesses of one input's gradient; None if the forward fails where they ask."""
    try:
        return oracle.every_element(of)
    except (NpformerError, ArithmeticError, ValueError, TypeError):
        return None


def _evidence(trace: Trace, pack: Pack) -> dict[str, Any]:
    """Call -> gradient -> the places of its terms and witnesses."""
    found: dict[str, Any] = {}
    if trace.recording is None:
        return found
    for call in trace.document["calls"]:
        names = {gradient["name"]: gradient["of"] for gradient in call["gradients"]}
        number = call["id"]
        shown = evidence_of(trace.recording.calls[number], trace.recording.seen[number], names)
        found[str(number)] = {
            name: {
                "terms": [pack.add(part) for part in each.terms],
                "complex": None if each.by_complex is None else pack.add(each.by_complex),
                "central": None if each.by_central is None else pack.add(each.by_central),
            }
            for name, each in shown.items()
        }
    return found


def _flows(trace: Trace, pack: Pack) -> dict[str, Any]:
    """The edges of the graph, and the uses of each upstream gradient and of each gradient that a layer returns."""
    found = Flows(trace.document["calls"], trace.arrays)
    fan_in: dict[str, dict[str, Any]] = {}
    for (call, what, name), uses in found.fan_in.items():
        fan_in.setdefault(str(call), {})[f"{what}.{name}"] = [
            {"call": user, "gradient": gradient, "map": pack.add(where)} for user, gradient, where in uses
        ]
    return {"edges": found.edges, "fan_in": fan_in}
