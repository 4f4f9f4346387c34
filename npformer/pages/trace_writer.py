"""The page of a trace: every number of a forward and a backward pass, step by step, in one file.

Left the calls as a tree and as a graph, in the middle the arrays with their numbers, right the formula and the source
with the line that runs, below the timeline. Each entry of a gradient shows the terms that add up to it, and what both
witnesses say. Bugs of the museum can be switched on (``pages/bugs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npformer.atomic import describe, write_atomically
from npformer.errors import OutputError
from npformer.pages.bugs import BugTrace
from npformer.pages.document import bundle, html_page, web_file
from npformer.pages.evidence import MOST_TERMS, evidence_of
from npformer.pages.flows import flows
from npformer.pages.opening import Opening
from npformer.pages.packing import Pack
from npformer.proof import Trace


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
    found = flows(trace.document["calls"], trace.arrays)
    fan_in: dict[str, dict[str, Any]] = {}
    for (call, what, name), uses in found.fan_in.items():
        fan_in.setdefault(str(call), {})[f"{what}.{name}"] = [
            {"call": user, "gradient": gradient, "map": pack.add(where)} for user, gradient, where in uses
        ]
    return {"edges": found.edges, "fan_in": fan_in}
