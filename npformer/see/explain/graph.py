"""How a number of a backward pass is made: by which line of which operation, from which numbers nearer to the loss.

Within an operation, ``expand`` reads the line. Between operations, layers only move and add gradients; which entry of
which operation's gradient arrives where is found by a re-run: the returned gradients carry marks, as imaginary
parts, and each operation takes the marks off what it receives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.see.explain.expand import Factor, Line, Term, expand
from npformer.see.explain.place import Place, float_place
from npformer.see.explain.session import Session
from npformer.see.explain.spots import CannotExpand, Index, Run, Spot, returned
from npformer.see.record.jacobian import gradient_names, terms_of
from npformer.see.record.lines import plain_function, tracing_lines
from npformer.see.record.listening import Call, Hooks, inputs_of


class Source(NamedTuple):
    """An entry of a gradient that an operation returned; it arrives somewhere, times coefficient."""

    call: Call
    gradient: int
    at: Index
    coefficient: float = 1.0


class Made(NamedTuple):
    """How an operation made a number: the line and its products; without a line, by its upstream gradient's entries.

    The number counts coefficient times.
    """

    call: Call
    line: Line | None
    terms: tuple[Term, ...]
    coefficient: float = 1.0


@dataclass
class Graph:
    """The operations of a session, each with the frame of its backward, made when it is needed."""

    session: Session
    _runs: dict[int, Run] = field(default_factory=dict)

    def run(self, call: Call) -> Run:
        """The run of a call's pure backward, line by line. Raises CannotExpand if its lines cannot be seen."""
        if call.number not in self._runs:
            seen, function = self.session.call_seen(call), pure(call)
            with tracing_lines([function]) as tracer:
                function(seen.upstream, call.cache)
            if not tracer.frames:
                raise CannotExpand(f"{call.operation}: its backward is no Python function")
            self._runs[call.number] = Run(tracer.frames[0])
        return self._runs[call.number]

    def uses(self, place: Place) -> list[Source]:
        """Every use of a parameter: the operations that add to its gradient, with the entry of theirs."""
        uses = []
        for call in self.session.backward_order:
            seen = self.session.call_seen(call)
            if place.name not in seen.added:
                continue
            names, inputs = gradient_names(call.target, 99), inputs_of(call)
            for number, parts in seen.params.items():
                for part in parts:
                    if part.parameter == place.name and inputs[number] in names:
                        index = index_in(place.index, part.columns, part.transposed)
                        uses.append(Source(call, names.index(inputs[number]), index))
        return uses

    def outside(self, place: Place) -> list[tuple[Call, float]]:
        """What layers' own code adds to a parameter's gradient, beside the operations they call."""
        if place.kind != "parameter":
            return []
        layers = (call for call in self.session.calls if not call.operation)
        added = ((call, self.session.call_seen(call).added.get(place.name)) for call in layers)
        return [(call, float(x[place.index])) for call, x in added if x is not None]

    def made(self, source: Source) -> Made:
        """The line and the products of an entry of a returned gradient."""
        try:
            run = self.run(source.call)
            expansion = expand(returned(run, run.root, source.gradient, source.at))
        except CannotExpand:
            return Made(source.call, None, tuple(self._by_upstream(source)), source.coefficient)
        return Made(source.call, expansion.line, expansion.terms, source.coefficient)

    def follow(self, call: Call, spot: Spot) -> list[Made]:
        """How a number inside a call's backward is made; in several ways where gradients were added."""
        try:
            expansion = expand(spot)
        except CannotExpand:
            return []
        if expansion.around:  # of no number that depends on dy: a backward is linear in it
            return []
        if expansion.outside is None:
            return [Made(call, expansion.line, expansion.terms)]
        return list(map(self.made, self.sources(call, expansion.outside, expansion.spot.index)))

    def arrivals(self, place: Place) -> list[Source]:
        """The entries of returned gradients of which a place's gradient is the sum."""
        if place.kind == "parameter":
            return self.uses(place)
        call = place.call or self.session.calls[0]
        if place.kind == "output":
            return self.sources(call, place.part, place.index)
        inputs = list(self.session.checked.inputs.tensors)
        part = float_place(call, place.part) if place.call else inputs.index(place.name)
        if call.operation:
            return [Source(call, part, place.index)]
        return self.sources(call, part, place.index, leaving=True)

    def sources(self, call: Call, part: int, index: Index, leaving: bool = False) -> list[Source]:
        """Where an entry of an upstream gradient comes from; leaving: of what the call returned instead."""
        marks = _Marks(self.session, call, part, index, leaving)
        return list(marks.between(0, marks.count))

    def _by_upstream(self, source: Source) -> Iterator[Term]:
        """Products with each entry of the upstream gradient: the pair's own backward, one entry at a time."""
        call, run = source.call, self.run(source.call)
        dy = self.session.call_seen(call).upstream
        names = gradient_names(call.target, 99)
        parts = terms_of(call.target, call.cache, dy, names[source.gradient], source.at)
        upstream = ast.parse(next(iter(run.root.arguments)), mode="eval").body
        for part, (values, whole) in enumerate(zip(parts, as_tuple(dy), strict=True)):
            for index in (tuple(map(int, each)) for each in np.argwhere(values)):
                value = float(np.asarray(whole)[index])
                spot = Spot(run, run.root, 0, upstream, index, part if isinstance(dy, tuple) else None)
                slope = Factor(f"∂y/∂{names[source.gradient]}", float(values[index]) / value, None)
                yield Term(1.0, (slope, Factor(spot.text, value, spot, index, np.shape(whole))))


def pure(call: Call) -> Any:
    """The backward of a call's pair that returns all gradients."""
    return plain_function(call.target.backward) or call.target.backward


def index_in(index: Index, columns: Sequence[int] | None, transposed: bool) -> Index:
    """The index, in an operation's array, of an entry of the parameter that is a part of it."""
    if transposed:
        return tuple(reversed(index))
    return index if columns is None else (*index[:-1], index[-1] + columns[0])


@dataclass
class _Marks(Hooks):
    """Finds the returned gradients' entries that arrive at one entry; each has a number, its mark."""

    session: Session
    target: Call
    part: int
    index: Index
    leaves: bool
    seen: float = 0.0
    power: int = 0
    within: tuple[int, int] = (0, 0)
    starts: dict[tuple[int, int], int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        for call in self.session.backward_order:
            if call is self.target and not self.leaves:
                break
            for number, gradient in enumerate(as_tuple(self.session.seen[call.number].gradients)):
                if gradient is not None:
                    self.starts[call.number, number] = self.count
                    self.count += np.size(gradient)

    def between(self, first: int, end: int) -> Iterator[Source]:
        """The sources with marks from first to end − 1."""
        if end <= first:
            return
        sums = [self._sum(first, end, power) for power in (0, 1, 2)]
        if not any(sums):
            return
        mark = round(sums[1] / sums[0]) if sums[0] else -1
        if sums[1] == mark * sums[0] and sums[2] == mark * mark * sums[0]:
            yield self._source(first + mark, sums[0])
        elif end - first > 1:
            middle = (first + end) // 2
            yield from self.between(first, middle)
            yield from self.between(middle, end)

    def _sum(self, first: int, end: int, power: int) -> float:
        self.within, self.power, self.seen = (first, end), power, 0.0
        self.session.run(self)
        return self.seen

    def _source(self, mark: int, coefficient: float) -> Source:
        number, gradient = max(
            (key for key, start in self.starts.items() if start <= mark), key=self.starts.__getitem__
        )
        call = self.session.calls[number]
        shape = np.shape(as_tuple(self.session.seen[number].gradients)[gradient])
        place = np.unravel_index(mark - self.starts[number, gradient], shape)
        return Source(call, gradient, tuple(map(int, place)), coefficient)

    def entering(self, call: Call | None, dy: Any) -> Any:
        """Read the marks of the target's entry; an operation gets its upstream gradient without marks."""
        if call is self.target and not self.leaves:
            self._read(dy)
        return _plain(dy) if call is not None and call.operation else dy

    def leaving(self, call: Call | None, dy: Any, gradients: Any, into: Any) -> Any:
        """Mark what an operation returns; read what the target returns."""
        if call is self.target and self.leaves:
            self._read(gradients)
        if call is None or not call.operation or gradients is None:
            return gradients
        marked = [self._marked(call, number, g) for number, g in enumerate(as_tuple(gradients))]
        return like(gradients, marked)

    def _marked(self, call: Call, number: int, gradient: Any) -> Any:
        start = self.starts.get((call.number, number))
        first, end = self.within
        if start is None or start >= end or start + np.size(gradient) <= first:
            return gradient
        marks = start + np.arange(np.size(gradient)).reshape(np.shape(gradient))
        in_range = (marks >= first) & (marks < end)
        return gradient + 1j * np.where(in_range, (marks - first).astype(float) ** self.power, 0.0)

    def _read(self, x: Any) -> None:
        part = as_tuple(x)[self.part]
        if part is not None:
            self.seen = float(np.imag(np.asarray(part)[self.index]))


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_plain(part) for part in x)
    return np.ascontiguousarray(np.real(x)) if np.iscomplexobj(x) else x
