"""The place of a number: which entry of which parameter, input or activation is asked about.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from npformer.check.inputs import as_tuple, is_float
from npformer.errors import ConfigError
from npformer.io.terminal import counted
from npformer.see.explain.session import Session
from npformer.see.explain.spots import Index
from npformer.see.record.listening import Call, inputs_of, shown_name
from npformer.typing import HostArray, HostArrays

FORM = (
    "NAME[INDEX], such as encoder.layers.0.norm1.gamma[2], or NAME@output[INDEX] for what a layer or operation returned"
)


@dataclass(frozen=True)
class Place:
    """One number. part: of several outputs or inputs of a call, which."""

    kind: str  # "parameter", "input", "output" or "taken": an input of a call inside
    name: str  # as shown: a parameter's or an input's name, or the call's with @
    index: Index
    call: Call | None = None
    part: int = 0

    @property
    def text(self) -> str:
        """As it is asked for."""
        return f"{self.name}[{','.join(map(str, self.index))}]" if self.index else self.name

    def array(self, session: Session) -> HostArray:
        """The array of which it is an entry."""
        if self.call is None:
            return session.checked.tensors[self.name]
        seen = session.call_seen(self.call)
        parts = as_tuple(seen.output) if self.kind == "output" else seen.inputs
        return np.asarray(parts[self.part])

    def gradient(self, session: Session, gradients: HostArrays) -> float:
        """Its gradient after the last run, which returned these gradients."""
        return float(self.gradients(session, gradients)[self.index])

    def gradients(self, session: Session, gradients: HostArrays, calls: list[Call] | None = None) -> HostArray:
        """The gradients of the whole array after the last run, or after the one that made these calls."""
        if self.call is None:
            return gradients[self.name]
        call = session.live[self.call.number] if calls is None else calls[self.call.number]
        came = call.upstream if self.kind == "output" else call.gradients
        number = self.part if self.kind == "output" else float_place(self.call, self.part)
        part = None if call.backward_time is None or came is None else as_tuple(came)[number]
        return np.zeros(self.array(session).shape) if part is None else np.asarray(part)


def float_place(call: Call, part: int) -> int:
    """Which of the gradients that a call's backward returned belongs to an input."""
    return sum(is_float(x) for x in call.inputs[:part])


def names_of_calls(session: Session) -> dict[str, Call]:
    """Every call under its name: the layer's or operation's, #2 for its second call."""
    by_name: dict[str, Call] = {}
    counts: Counter[str] = Counter()
    for call in session.calls:
        name = shown_name(call)
        counts[name] += 1
        by_name[name if counts[name] == 1 else f"{name}#{counts[name]}"] = call
    return by_name


def find(session: Session, text: str) -> Place:
    """The place that a text names. Raises ConfigError, with the nearest names, or with the range of the index."""
    name, inside = _parts(text)
    place = _call_place(session, name) if "@" in name else _tensor_place(session, name)
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


def _tensor_place(session: Session, name: str) -> Place:
    tensors = session.checked.tensors
    if name in tensors:
        kind = "parameter" if name in session.checked.parameters else "input"
        return Place(kind, name, ())
    calls = names_of_calls(session)
    if name in session.checked.input_names:
        shown = next(key for key, call in calls.items() if call.operation)
        raise ConfigError(f"--at {name}: expected numbers, got token ids, which have no gradient; try {shown}@output")
    if name in calls:
        raise ConfigError(
            f"--at {name}: expected {name}@output[INDEX] for its output, or the name of a parameter in it"
        )
    aliases = {alias: first for first, _, others in session.setting.target.owned_parameters() for alias in others}
    if name in aliases:
        raise ConfigError(f"--at {name}: expected the first name of a tied parameter, {aliases[name]}, got another one")
    raise ConfigError(f"--at: expected a parameter or an input, got {name!r}; {_nearest(name, tensors)}")


def _call_place(session: Session, name: str) -> Place:
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
        return Place("output", name, (), call, part)
    names = inputs_of(call)
    taken = [each for each, x in zip(names, call.inputs, strict=True) if is_float(x)]
    if what not in taken:
        known = ", ".join(f"@{each}" for each in ("output", *taken))
        raise ConfigError(f"--at {name}: expected one of {known} after {owner}, got @{what}")
    return Place("taken", name, (), call, names.index(what))


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
