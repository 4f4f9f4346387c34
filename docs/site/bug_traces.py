"""Each bug of the museum in a trace: where the numbers first differ, how far that spreads, or why no trace shows it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from docs.site import differences, recordings
from docs.site.plain_text import sentences
from docs.site.recordings import MODELS, SHOWCASE, Recording
from docs.site.spread import Step, drawn, said
from npformer.functional import OPERATIONS
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS, bug
from npformer.pages.bugs import MOST, USUAL, BugTrace, with_bug

FUNCTIONAL = "npformer.functional."
#: Why a trace, one forward and one backward, does not run the changed code: by the beginning of its name.
OUTSIDE = {
    "npformer.optim.adam": "The bug acts after the backward, when Adam turns gradients into updates; every gradient "
    "is right.",
    "npformer.optim.schedules": "The bug acts after the backward, in the learning rate of each update; every gradient "
    "is right.",
    "npformer.optim.clip": "The bug acts after the backward, when the gradients of all parameters are scaled together; "
    "before that every gradient is right.",
    "npformer.backend.arena": "The bug acts after the backward, in what weight decay takes from each parameter; every "
    "gradient is right.",
    "npformer.training.step:TrainStep._rate_of": "The bug acts after the backward, in the learning rate of each "
    "update; every gradient is right.",
    "npformer.training.step:TrainStep.update": "The bug acts after the backward, in the order of clipping and update; "
    "every gradient is right.",
    "npformer.training.step:TrainStep._make": "The bug acts between two steps, when old gradients are not removed; "
    "the gradients of one step alone are right.",
    "npformer.training.step:TrainStep._shares": "The bug acts when gradients of several small batches are added up to "
    "one step; those of each batch alone are right.",
    "npformer.training.step:TrainStep._check": "The bug acts when a run is resumed, in the random numbers of later "
    "steps; within one step every gradient is right.",
    "npformer.training.step:backpropagate": "The bug acts from one step to the next, when the same random numbers come "
    "again; within one step every gradient is right.",
    "npformer.training.trainer": "The bug acts when a run is saved or resumed; in one step every gradient is right.",
    "npformer.data": "The bug acts before the forward, when a batch is made of its texts; the gradients are right for "
    "that batch.",
    "npformer.models.transformer:Transformer.step": "The bug acts in decoding, which writes one token after the other "
    "and has no backward.",
}


class Shown(NamedTuple):
    """A bug in a recording that it changes."""

    recording: Recording
    found: BugTrace


def reason(one: Bug) -> str:
    """Why no trace shows a bug; empty if one may."""
    starts = sorted((start for start in OUTSIDE for target in one.targets if target.startswith(start)), key=len)
    return OUTSIDE[starts[-1]] if starts else ""


def operations_of(one: Bug) -> list[str]:
    """The operations in whose files a bug is; if these are none, those that run it. None of a bug of layers."""
    modules = {target.partition(":")[0] for target in one.targets}
    if not all(module.startswith(FUNCTIONAL) for module in modules):
        return []
    own = [name for name, row in OPERATIONS.items() if row.forward.__module__ in modules]
    return own or [name for name in OPERATIONS if recordings.runs(recordings.operation(name)) & one.targets]


@cache
def of_bug(name: str) -> Shown | None:
    """The bug of this name in the first recording that it changes, with lines: of its operation, or of a model."""
    one = bug(name)
    own = (each for operation in operations_of(one) for each in recordings.of_operation(operation))
    found = None if reason(one) else _first(one, own)
    return found or _in_model(name)


@cache
def of_model(name: str) -> Shown | None:
    """The bug of this name in the first model that it changes, without lines, which take most of the time."""
    return None if reason(bug(name)) else _first(bug(name), map(recordings.model, MODELS), lines=False)


@cache
def _in_model(name: str) -> Shown | None:
    """The same with lines."""
    found = of_model(name)
    return None if found is None else _first(bug(name), iter([found.recording]))


def _first(one: Bug, candidates: Iterator[Recording], lines: bool = True) -> Shown | None:
    for recording in candidates:
        if recordings.runs(recording) & one.targets:
            found = with_bug(partial(recording.record, lines=lines), recordings.right(recording, lines), one)
            if found is not None:
                return Shown(recording, found)
    return None


def on_page_of(recording: Recording) -> list[BugTrace]:
    """The bugs that the page of a recording can switch on; on the walk's the usual ones, too."""
    found = [of_bug(each.id) for each in BUGS]
    if recording.name == SHOWCASE:
        found = [_in_model(each.id) if each.id in USUAL[:MOST] else one for each, one in zip(BUGS, found, strict=True)]
    return [one.found for one in found if one is not None and one.recording.name == recording.name]


def section(one: Shown) -> str:
    """Where a bug's numbers first differ, and how far that spreads in a model, for its page."""
    name = one.found.bug.id
    return f"{first(one)}\n\n{spread(one) if one.recording.name in MODELS else in_model(of_model(name))}"


def first(one: Shown) -> str:
    """The first call that differs, with its lines without the bug and with it."""
    found, right = one.found, recordings.right(one.recording)
    call = right.calls[found.first.call]
    name = sentences(f"``{call['name'] or call['type']}``")
    rows = differences.rows(right, found)
    where = f"The first call that differs is {name}, in {found.first.way}."
    if call["parent"] is None and call["kind"] == "operation":
        where = f"The {found.first.way} differs."
    text = f"Recorded without the bug and with it: {one.recording.said}. {where} {_handed(one, bool(rows))}".rstrip()
    return f"{text}\n\n{differences.shown(rows)}" if rows else text


def _handed(one: Shown, has_rows: bool) -> str:
    """What is shown of the first call."""
    calls, first, wrong = recordings.right(one.recording).calls, one.found.first, one.found.wrong.calls
    if first.handed is None:
        lines = calls[first.call][first.way] or {"function": None}
        what = "the values that differ, line by line" if lines["function"] else "what it makes"
        return f"Below are {what}; what differs is framed."
    name = sentences(f"``{calls[first.handed]['name'] or calls[first.handed]['type']}``")
    if has_rows:
        return f"It hands other numbers to {name}; they are framed below."
    if first.way == "forward" and first.handed < len(wrong):
        other = sentences(f"``{wrong[first.handed]['name'] or wrong[first.handed]['type']}``")
        return f"It calls {other} where it should call {name}."
    return f"It does not run the {first.way} of {name} with what the forward of that call has kept."


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


def _name(call: Any) -> str:
    use = f" ({call['use']})" if call["use"] > 1 else ""
    return f"{call['name'] or call['type']}{use}"


def in_model(model: Shown | None) -> str:
    """How the bug of an operation spreads in a model."""
    if model is None:
        return "The Transformers that are recorded here run no input on which this bug changes a number."
    calls = recordings.right(model.recording).calls
    name = sentences(f"``{calls[model.found.first.call]['name'] or calls[model.found.first.call]['type']}``")
    walk = ""
    if model.recording.name == SHOWCASE and model.found.bug.id in USUAL[:MOST]:
        walk = f" [Put the bug into the walk](../traces/{SHOWCASE}.html?bug={model.found.bug.id}), step by step."
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
    """The parameters whose gradient is another one, as rows."""
    right, wrong = recordings.right(one.recording), one.found.wrong
    pairs = zip(right.document["parameters"], wrong.document["parameters"], strict=True)
    return [
        [f"<code>{a['name']}</code>"]
        for a, b in pairs
        if (right.arrays[a["gradient"]] != wrong.arrays[b["gradient"]]).any()
    ]


def _counts(one: Shown, made: list[Step]) -> str:
    """How many calls and parameters are wrong, and what the loss shows of it."""
    right = recordings.right(one.recording).document
    calls = sum(step.size != 0 for step in made) or "None"
    counted = (
        f"{calls} of the {len(made)} calls of operations, in forward and in backward, return other numbers; "
        f"{len(_parameters(one))} of {len(right['parameters'])} parameters get another gradient."
    )
    loss = right["loss"]
    if not isinstance(loss, float) or one.found.loss is None or not right["targets"]:
        return counted
    if one.found.loss == loss:
        return f"{counted} The loss is the same to the last bit: it shows nothing."
    return f"{counted} The loss is {one.found.loss:.4f} instead of {loss:.4f}."


def command(name: str) -> str:
    """What makes a page of the walk's Transformer with this bug; empty if its trace does not show the bug."""
    one = of_model(name)
    if one is None or one.recording.name != SHOWCASE or bug(name).category == "tests that cannot fail":
        return ""
    return f"npformer trace showcase --html page.html --bugs {name}"
