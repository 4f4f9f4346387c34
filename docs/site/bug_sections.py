"""What a bug's page says of its trace: the first call that differs, and how far the difference spreads."""

from __future__ import annotations

from typing import Any

import numpy as np

from docs.site import differences, recordings
from docs.site.bug_traces import Shown, of_model
from docs.site.plain_text import sentences
from docs.site.recordings import MODELS, SHOWCASE
from docs.site.spread import Step, drawn, said
from npformer.pages.bugs import MOST, ROUNDING, USUAL

Call = Any


def section(one: Shown) -> str:
    """Where a bug's numbers first differ, and how far that spreads in a model, for its page."""
    name = one.found.bug.id
    return f"{first(one)}\n\n{spread(one) if one.recording.name in MODELS else in_model(of_model(name))}"


def first(one: Shown) -> str:
    """The first call that differs, with its lines without the bug and with it."""
    found, right = one.found, recordings.right(one.recording)
    rows = differences.rows(right, found)
    where = f"The {found.first.way} differs."
    if one.recording.name in MODELS:
        where = f"The first call that differs is {_code(right.calls[found.first.call])}, in {found.first.way}."
    text = f"Recorded without the bug and with it: {one.recording.said}. {where} {_shown(one, rows)}"
    return f"{text}\n\n{differences.shown(rows)}" if rows else text


def _shown(one: Shown, rows: list[differences.Row]) -> str:
    """What is shown of the first call."""
    calls, first, wrong = recordings.right(one.recording).calls, one.found.first, one.found.wrong.calls
    if first.handed is None:
        has_lines = any(side.code for row in rows for side in (row.right, row.wrong) if side is not None)
        return f"Below {'are its lines that differ' if has_lines else 'is what differs'}; other numbers are framed."
    if rows:
        return f"It hands other numbers to {_code(calls[first.handed])}; they are framed below."
    if first.way == "forward" and first.handed < len(wrong):
        return f"It calls {_code(wrong[first.handed])} where it should call {_code(calls[first.handed])}."
    return f"It does not run the {first.way} of {_code(calls[first.handed])} with what the forward of that call kept."


def steps(one: Shown) -> list[Step]:
    """The calls of operations, in the order in which they end: forward, then backward."""
    calls, found = recordings.right(one.recording).calls, one.found
    chosen = {call["id"] for call in calls if call["kind"] == "operation"}
    ended = sorted(
        (way["end"], call["id"], name)
        for call in calls
        if call["id"] in chosen
        for name in ("forward", "backward")
        if (way := call[name]) is not None  # type: ignore[literal-required]
    )
    made = [
        Step(_name(calls[number]), way, found.sizes.get(number, {}).get(way, 0.0), (number, way) == found.first[:2])
        for _, number, way in ended
    ]
    start = next((i for i, step in enumerate(made) if step.size != 0), None)
    if start is not None and not any(step.first for step in made):  # a layer's own code begins it
        made[start] = made[start]._replace(first=True)
    return made


def _name(call: Call) -> str:
    use = f" ({call['use']})" if call["use"] > 1 else ""
    return f"{call['name'] or call['type']}{use}"


def _code(call: Call) -> str:
    """The name of a call, as Markdown."""
    return sentences(f"``{_name(call)}``")


def in_model(model: Shown | None) -> str:
    """How the bug of an operation spreads in a model."""
    if model is None:
        return "The Transformers that are recorded here run no input on which this bug changes a number."
    name = _code(recordings.right(model.recording, lines=False).calls[model.found.first.call])
    walk = ""
    if model.recording.name == SHOWCASE and model.found.bug.id in USUAL[:MOST]:
        address = f"../traces/{SHOWCASE}.html?bug={model.found.bug.id}"
        walk = f' <a href="{address}">Step through the walk with the bug in it</a>.'
    intro = f"In {model.recording.said}, the first call that differs is {name}, in {model.found.first.way}.{walk}"
    return f"{intro}\n\n{spread(model)}"


def spread(one: Shown) -> str:
    """The sizes of the differences, call by call."""
    made = steps(one)
    differing = [step for step in made if step.size != 0]
    if not differing:
        return (
            f"{_counts(one, made)}\n\n{_folded('Parameters that get another gradient', 'parameter', _parameters(one))}"
        )
    rows = [[f"<code>{step.name}</code>", step.way, said(step.size)] for step in differing]
    return (
        f"{_counts(one, made)} Each column is the call of an operation. Its height is the largest difference in what "
        f"the call returns, relative to the largest right number there.\n\n{drawn(made)}\n\n"
        f"{_folded(f'The {len(differing)} calls, in the order of time', 'call|pass|largest difference', rows)}"
    )


def _folded(summary: str, head: str, rows: list[list[str]]) -> str:
    """A table that a reader unfolds."""
    names = "".join(f"<th>{name}</th>" for name in head.split("|"))
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f'<table class="docutils"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return f'<details><summary>{summary}</summary><div class="table-wrapper">{table}</div></details>'


def _parameters(one: Shown) -> list[list[str]]:
    """The parameters whose gradient is another one, as rows. What is rounding is small beside the largest gradient."""
    right, wrong = recordings.right(one.recording), one.found.wrong
    pairs = zip(right.document["parameters"], wrong.document["parameters"], strict=True)
    named = {a["name"]: (right.arrays[a["gradient"]], wrong.arrays[b["gradient"]]) for a, b in pairs}
    largest = max((float(np.max(np.abs(a))) for a, _ in named.values()), default=0.0)
    same = {name for name, (a, b) in named.items() if np.max(np.abs(a - b)) <= ROUNDING * largest}
    return [[f"<code>{name}</code>"] for name in named if name not in same]


def _counts(one: Shown, made: list[Step]) -> str:
    """How many calls and parameters are wrong, and what the loss shows of it."""
    right = recordings.right(one.recording).document
    calls, parameters = sum(step.size != 0 for step in made), len(_parameters(one))
    counted = (
        f"Of the {len(made)} calls of operations, in forward and in backward, {calls or 'none'} "
        f"return{'' if calls > 1 else 's'} other numbers; of the {len(right['parameters'])} parameters, "
        f"{parameters or 'none'} get{'' if parameters > 1 else 's'} another gradient."
    )
    loss = right["loss"]
    if not isinstance(loss, float) or one.found.loss is None or not right["targets"]:
        return counted
    if one.found.loss == loss:
        return f"{counted} The loss is the same to the last bit: it shows nothing."
    return f"{counted} The loss is {one.found.loss:.4f} instead of {loss:.4f}."
