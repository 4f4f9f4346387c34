"""Each bug of the museum in the first recording whose numbers it changes, or why no trace shows it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

from docs.site import recordings
from docs.site.recordings import MODELS, SHOWCASE, Recording
from npformer.functional import OPERATIONS
from npformer.lab.mistake import Mistake
from npformer.lab.museum.bugs import BUGS, bug
from npformer.see.page.bugs import MOST, USUAL, BugTrace, with_bug

FUNCTIONAL = "npformer.functional."
#: Where a bug acts that no trace runs, one forward and one backward: by the beginning of the name of the changed code.
OUTSIDE = {
    "npformer.optim.adam": "after the backward, when Adam turns gradients into updates",
    "npformer.optim.schedules": "after the backward, in the learning rate of each update",
    "npformer.optim.clip": "after the backward, when the gradients of all parameters are scaled together",
    "npformer.backend.arena": "after the backward, in what weight decay takes from each parameter",
    "npformer.training.step:TrainStep._rate_of": "after the backward, in the learning rate of each update",
    "npformer.training.descent:update": "after the backward, in the order of clipping and update",
    "npformer.training.step:TrainStep._make": "between two steps, when old gradients are not removed",
    "npformer.training.step:TrainStep._shares": "when gradients of several small batches are added up to one step",
    "npformer.training.step:TrainStep._inputs_of": "when a run is resumed, in the random numbers of later steps",
    "npformer.training.descent:backpropagate": "from one step to the next, when the same random numbers come again",
    "npformer.run.trainer": "when a run is saved or resumed",
    "npformer.run.model_arrays": "when a run is saved or resumed",
    "npformer.data": "before the forward, when a batch is made of its texts",
    "npformer.layers.decode_state:DecodeState": "in decoding, which writes one token after the other",
}


class Shown(NamedTuple):
    """A bug in a recording that it changes."""

    recording: Recording
    found: BugTrace


def reason(one: Mistake) -> str:
    """Why no trace shows a bug; empty if one may."""
    starts = sorted((start for start in OUTSIDE for target in one.targets if target.startswith(start)), key=len)
    return f"The bug acts {OUTSIDE[starts[-1]]}. The gradients of a batch alone are right." if starts else ""


def operations_of(one: Mistake) -> list[str]:
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


def _first(one: Mistake, candidates: Iterator[Recording], lines: bool = True) -> Shown | None:
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


def command(name: str) -> str:
    """What makes a page of the walk's Transformer with this bug; empty if its trace does not show the bug."""
    one = of_model(name)
    if one is None or one.recording.name != SHOWCASE or bug(name).category == "tests that cannot fail":
        return ""
    return f"npformer trace transformer --html page.html --bugs {name}"
