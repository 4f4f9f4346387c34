"""One number of a gradient: where it is, what both witnesses say of it, and what it predicts of the loss.

decoder.layers.0.self_attention.query.weight[3,5]    a parameter
x[0,2,3]                                             an input of a layer
decoder.layers.0@output[0,2,3]                       what a layer or an operation returned
decoder.layers.0.self_attention@x[0,2,3]             what went into it: the part of the gradient that it returned
decoder.layers.0.cross_attention.linear#2@output[0,1,0]    its second call
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, is_float
from npformer.check.measures import largest
from npformer.check.oracles import Evidence, Oracle, unit
from npformer.check.subject import NOTHING_REPLACED, Upstream
from npformer.check.verdict import TOLERANCE, Judge
from npformer.errors import ConfigError
from npformer.io.terminal import counted
from npformer.see.explain.entries import Index
from npformer.see.record.calls import Call, Hooks, Moving
from npformer.see.record.recording import Recording
from npformer.see.record.trace import aliases_of
from npformer.typing import HostArray, HostArrays, Tensors

FORM = (
    "NAME[INDEX], such as encoder.layers.0.norm1.gamma[2], or NAME@output[INDEX] for what a layer or operation returned"
)

NAME = "number"
#: The step of a prediction, and how often it is halved at most.
STEP, HALVINGS = 0.01, 30
#: Errors up to so many units of rounding of the loss are not looked at: their ratio would be off by a thousandth.
NOISE = 1000


@dataclass(frozen=True)
class GradientAddress:
    """Where one number is. part: of several outputs or inputs of a call, which."""

    kind: str  # "parameter", "input", "output" or "taken": an input of a call inside
    name: str  # as shown: a parameter's or an input's name, or the call's with @
    index: Index
    call: Call | None = None
    part: int = 0

    @property
    def text(self) -> str:
        """As it is asked for."""
        return f"{self.name}[{','.join(map(str, self.index))}]" if self.index else self.name

    def array(self, session: Recording) -> HostArray:
        """The array of which it is an entry."""
        if self.call is None:
            return session.checked.tensors[self.name]
        seen = session.seen[self.call.number]
        parts = as_tuple(seen.output) if self.kind == "output" else seen.inputs
        return np.asarray(parts[self.part])

    def gradient(self, session: Recording, hooks: Hooks | None = None) -> float:
        """Its gradient in another run of the backward, with what hooks change."""
        return float(self.gradients(session, session.run(hooks), session.live)[self.index])

    def gradients(self, session: Recording, gradients: HostArrays, calls: list[Call]) -> HostArray:
        """The gradients of the whole array, after a run that returned these gradients and made these calls."""
        if self.call is None:
            return gradients[self.name]
        call = calls[self.call.number]
        came = call.upstream if self.kind == "output" else call.gradients
        number = self.part if self.kind == "output" else float_place(self.call, self.part)
        part = None if call.backward_time is None or came is None else as_tuple(came)[number]
        return np.zeros(self.array(session).shape) if part is None else np.asarray(part)


def float_place(call: Call, part: int) -> int:
    """Which of the gradients that a call's backward returned belongs to an input."""
    return sum(is_float(x) for x in call.inputs[:part])


def names_of_calls(session: Recording) -> dict[str, Call]:
    """Every call under its name: the layer's or operation's, #2 for its second call."""
    by_name: dict[str, Call] = {}
    counts: Counter[str] = Counter()
    for call in session.calls:
        name = call.shown_name
        counts[name] += 1
        by_name[name if counts[name] == 1 else f"{name}#{counts[name]}"] = call
    return by_name


def find(session: Recording, text: str) -> GradientAddress:
    """The place that a text names. Raises ConfigError, with the nearest names, or with the range of the index."""
    name, inside = _parts(text)
    place = _in_call(session, name) if "@" in name else _in_tensors(session, name)
    shape = place.array(session).shape
    return replace(place, index=_index(text, inside, shape))


def find_parameter(shapes: Mapping[str, Index], text: str) -> tuple[str, Index]:
    """The name and index of a parameter's entry that a text names. Raises ConfigError, as ``find`` does."""
    name, inside = _parts(text)
    if name not in shapes:
        raise ConfigError(f"--at: expected a parameter, got {name!r}; {_nearest(name, shapes)}")
    return name, _index(text, inside, shapes[name])


def _parts(text: str) -> tuple[str, str | None]:
    """The name, and what stands in the brackets."""
    match = re.fullmatch(r"([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?", text.strip())
    if match is None:
        raise ConfigError(f"--at: expected {FORM}, got {text!r}")
    name, inside = match.groups()
    return name, inside


def _in_tensors(session: Recording, name: str) -> GradientAddress:
    tensors = session.checked.tensors
    if name in tensors:
        kind = "parameter" if name in session.checked.parameters else "input"
        return GradientAddress(kind, name, ())
    calls = names_of_calls(session)
    if name in session.checked.input_names:
        shown = next(key for key, call in calls.items() if call.operation)
        raise ConfigError(f"--at {name}: expected numbers, got token ids, which have no gradient; try {shown}@output")
    if name in calls:
        raise ConfigError(
            f"--at {name}: expected {name}@output[INDEX] for its output, or the name of a parameter in it"
        )
    aliases = {alias: first for first, others in aliases_of(session.target).items() for alias in others}
    if name in aliases:
        raise ConfigError(f"--at {name}: expected the first name of a tied parameter, {aliases[name]}, got another one")
    raise ConfigError(f"--at: expected a parameter or an input, got {name!r}; {_nearest(name, tensors)}")


def _in_call(session: Recording, name: str) -> GradientAddress:
    owner, _, what = name.partition("@")
    calls = names_of_calls(session)
    if owner not in calls:
        raise ConfigError(f"--at: expected a layer or an operation before @, got {owner!r}; {_nearest(owner, calls)}")
    call, (word, _, number) = calls[owner], what.partition(".")
    if word == "output":
        count = len(as_tuple(call.output))
        part = int(number) if number.isdecimal() else 0
        if part >= count or (number and not number.isdecimal()):
            raise ConfigError(f"--at {name}: expected output.0 to output.{count - 1}, got {what!r}")
        return GradientAddress("output", name, (), call, part)
    names = call.input_names
    taken = [each for each, x in zip(names, call.inputs, strict=True) if is_float(x)]
    if what not in taken:
        known = ", ".join(f"@{each}" for each in ("output", *taken))
        raise ConfigError(f"--at {name}: expected one of {known} after {owner}, got @{what}")
    return GradientAddress("taken", name, (), call, names.index(what))


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    ending = [each for each in known if each.endswith(f".{name}")]  # such as gamma, for encoder.layers.0.norm1.gamma
    near = (ending or difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known)[:3]
    return f"the nearest names are {', '.join(near)}"


def _index(text: str, inside: str | None, shape: Index) -> Index:
    """The index in brackets. Raises ConfigError unless it is one of shape's."""
    letters = "scalar" if not shape else f"({', '.join(map(str, shape))})"
    try:
        index = tuple(int(each) for each in inside.split(",")) if inside else ()
    except ValueError:
        raise ConfigError(f"--at {text}: expected whole numbers in the brackets, got [{inside}]") from None
    if len(index) != len(shape):
        example = f"[{','.join('0' * len(shape))}]" if shape else "no index"
        raise ConfigError(
            f"--at {text}: expected {counted(len(shape), 'number')} in brackets for the shape {letters}, "
            f"such as {example}, got {len(index)}"
        )
    for axis, (i, size) in enumerate(zip(index, shape, strict=True)):
        if not -size <= i < size:
            raise ConfigError(
                f"--at {text}: expected an index from 0 to {size - 1} along axis {axis} of the shape {letters}, got {i}"
            )
    return tuple(i % size for i, size in zip(index, shape, strict=True))


class Witnessed(NamedTuple):
    """A gradient entry with its witnesses and the verdict of gradcheck's rule on it."""

    analytic: float
    by_complex: float
    by_central: float
    verdict: str
    note: str


class StepEffect(NamedTuple):
    """What a step of this size changes: predicted by the gradient, and measured."""

    step: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """How far the prediction is off."""
        return abs(self.measured - self.predicted)


class Means(NamedTuple):
    """What a step changes, and half of it; whether half the step leaves a quarter of the error, down to rounding."""

    whole: StepEffect
    half: StepEffect
    falls_fourfold: bool


class _AtAddress:
    """The loss as a function of the array in which a number is: the subject of a gradient check."""

    def __init__(self, session: Recording, at: GradientAddress) -> None:
        self.session, self.at = session, at
        self.tensors: HostArrays = {NAME: np.array(at.array(session), dtype=np.float64)}

    def outputs(self, replaced: Tensors) -> tuple[HostArray, ...]:
        """The loss, (1,), with another array in the place."""
        return (np.array([self.session.value(*self._changed(replaced))]),)

    def gradients(self, upstream: Upstream, replaced: Tensors = NOTHING_REPLACED) -> HostArrays:
        """The analytic gradient of the array."""
        found = self.session.gradients_at(*self._changed(replaced))
        return {NAME: upstream[0].item() * self.at.gradients(self.session, *found)}

    def _changed(self, replaced: Tensors) -> tuple[HostArrays, Hooks | None]:
        at, new = self.at, replaced.get(NAME)
        if new is None or at.call is None:
            return {} if new is None else {at.name: new}, None
        return {}, Moving(at.call.number, at.part, new - self.tensors[NAME], at.kind == "taken")


def value_of(session: Recording, at: GradientAddress) -> Witnessed:
    """The number with its witnesses, judged by gradcheck's own rules at this entry."""
    subject: Any = _AtAddress(session, at)
    analytic = at.gradients(session, session.run(), session.live)
    oracle = Oracle(subject, [(np.ones(1),)])
    asked = [float(each[0]) for each in oracle.along(NAME, unit(analytic.shape, at.index))]
    judge = Judge(oracle, np.array([largest(session.gradients.values())]), TOLERANCE, is_analytic=lambda: True)
    claimed = analytic[None]
    parts = [claimed.copy(), claimed.copy(), np.zeros_like(claimed), np.full_like(claimed, np.inf)]
    for part, value in zip(parts, asked, strict=True):  # elsewhere everything agrees: only this number is judged
        part[0, *at.index] = value
    row = judge.row(NAME, claimed, Evidence(*parts), None)
    return Witnessed(float(analytic[at.index]), asked[0], asked[1], row.verdict, row.note)


def means_of(session: Recording, at: GradientAddress, number: float) -> Means:
    """What a step predicts and changes; the step is halved until the error of the prediction is only rounding.

    The error is a·h² + b·h³ + …, so half the step leaves a quarter of it, as far as the second term is small and no
    gate of ReLU switches on the way. A wrong number would leave half of it: its error is linear in h. The steps shown
    are the largest from which on the error falls by 4, give or take an eighth.
    """
    subject = _AtAddress(session, at)
    start, here = subject.tensors[NAME], float(session.value())
    noise = NOISE * np.finfo(np.float64).eps * max(1.0, abs(here))

    def predict(step: float) -> StepEffect:
        moved = start + step * unit(start.shape, at.index)
        return StepEffect(step, step * number, float(subject.outputs({NAME: moved})[0][0]) - here)

    predictions = [predict(STEP)]
    while len(predictions) < 2 or (predictions[-1].error > noise and len(predictions) < HALVINGS):
        predictions.append(predict(predictions[-1].step / 2))
    return steady(predictions, noise)


def steady(predictions: Sequence[StepEffect], noise: float) -> Means:
    """The first of these predictions, each with half the step of the one before, from which on the errors fall by 4.

    Errors of at most noise are not looked at.
    """
    errors = [each.error for each in predictions]
    falls = [abs(one / other - 4) <= 0.5 for one, other in pairwise(errors) if other > noise]
    last_wrong = max((i for i, is_right in enumerate(falls) if not is_right), default=-1)
    holds = not falls or last_wrong < len(falls) - 1
    first = last_wrong + 1 if holds else 0
    return Means(predictions[first], predictions[first + 1], holds)
