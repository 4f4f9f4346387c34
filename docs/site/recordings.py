"""What the site records: each operation on a small input, the walk's Transformer, and variants that run other code.

Each recording has a page of its trace, on which the bugs that are shown with it can be switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from npformer.check.cases.op_samples import op_cases
from npformer.functional import OPERATIONS
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import noted
from npformer.see.explain.operation import sample_inputs
from npformer.see.record.models import model_setting, showcase
from npformer.see.record.trace import Trace

SHOWCASE = "transformer"
#: Variants of the walk's Transformer, and layers, in words; the first that a bug changes shows it.
MODELS: dict[str, str] = {
    SHOWCASE: "the Transformer of [the walk](../walk.md)",
    "transformer-dropout": "the walk's Transformer with dropout",
    "transformer-pre": "the walk's Transformer with each norm before its sub-layer",
    "transformer-gelu": "the walk's Transformer with GELU, and each norm before its sub-layer",
    "transformer-tied": "the walk's Transformer with tied embeddings",
    "learned-positions": "the walk's Transformer with learned positions",
    "transformer-inference": "the walk's Transformer with dropout, which is off since it does not train",
    "transformer-smoothing": "the walk's Transformer with label smoothing",
    "transformer-deep": "the walk's Transformer with two layers in the encoder and in the decoder",
    "layer-twice": "a feed-forward layer that is used twice",
}
#: Added to scores it changes nothing, but an exponential of them overflows in float64.
LARGE = 1000
_OVERFLOWING = ("softmax", "cross_entropy")


class Recording(NamedTuple):
    """A forward and backward that can be made again, with a bug in force, too."""

    name: str  # of its page
    said: str  # what is recorded, as Markdown of a page in a folder
    record: Callable[..., Trace]  # lines=False leaves out the lines


@cache
def model(name: str) -> Recording:
    """The recording of a model or layer of MODELS."""
    return Recording(name, MODELS[name], _recorder(name))


def _recorder(name: str) -> Callable[..., Trace]:
    if name == SHOWCASE:
        return showcase
    if name == "transformer-inference":
        return partial(showcase, dropout=0.3)  # without a key nothing is drawn
    smoothing = name == "transformer-smoothing"
    found = model_setting({"transformer-smoothing": SHOWCASE, "layer-twice": "one layer used twice"}.get(name, name))
    options: dict[str, Any] = found.options | ({"label_smoothing": 0.1} if smoothing else {})
    labels = {"targets": found.targets, "tokens": found.labels or None, "name": name}
    return partial(npf.trace, found.target, *found.inputs, **labels, **options)


@cache
def operation(name: str) -> Recording:
    """The recording of an operation on a small input; dropout's is larger, since a small one draws nothing."""
    inputs = () if name == "dropout" else sample_inputs(name)
    return Recording(name, f"{_link(name)} on a small input", partial(npf.trace, name, *inputs))


@cache
def of_operation(name: str) -> tuple[Recording, ...]:
    """An operation on its small input, then on the samples of its tests, and on one with large scores."""
    return (operation(name), *_samples(name))


def _samples(name: str) -> Iterator[Recording]:
    samples = [case for case in op_cases() if case.name.partition(":")[0] == name]
    for number, case in enumerate(samples, 2):
        about = case.name.partition(": ")[2]
        said = f"{_link(name)} on a sample of its tests{f' ({about})' if about else ''}"
        yield Recording(f"{name}-{number}", said, partial(npf.trace, name, *case.inputs, name=case.name))
    if name in _OVERFLOWING:
        large, *rest = sample_inputs(name)
        said = f"{_link(name)} on a small input plus {LARGE}"
        yield Recording(f"{name}-large", said, partial(npf.trace, name, LARGE + np.asarray(large), *rest))


def _link(name: str) -> str:
    home = OPERATIONS[name].forward.__module__.rpartition(".")[2]
    return f"[{name.replace('_', ' ')}](../operations/{home}.md)"


@cache
def right(recording: Recording, lines: bool = True) -> Trace:
    """The trace without a bug."""
    return recording.record(lines=lines)


@cache
def runs(recording: Recording) -> frozenset[str]:
    """The targets of the museum's bugs that a recording runs."""
    with noted({target for bug in BUGS for target in bug.targets}) as ran:
        recording.record(lines=False)
    return frozenset(ran)
