"""How a number of a backward pass is made: by which line of which operation, from which numbers nearer to the loss.

Within an operation, ``expand`` reads the line. Between operations, layers only move and add gradients; which entry of
which operation's gradient arrives where is found by a re-run: the returned gradients carry marks, as imaginary
parts, and each operation takes the marks off what it receives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.see.explain.entries import CannotExpand, Index, PairRun, Spot, returned
from npformer.see.explain.number import GradientAddress, float_place
from npformer.see.explain.products import CodeLine, Factor, Term, expand
from npformer.see.record.calls import Call, Hooks, gradient_names, inputs_of
from npformer.see.record.jacobian import terms
from npformer.see.record.lines import plain_function, tracing_lines
from npformer.see.record.recording import Recording


class Arrival(NamedTuple):
    """An entry of a gradient that an operation returned; it arrives somewhere, times coefficient."""

    call: Call
    gradient: int
    at: Index
    coefficient: float = 1.0


class Making(NamedTuple):
    """How an operation made a number: the line and its products; without a line, by its upstream gradient's entries.

    The number counts coefficient times.
    """

    call: Call
    line: CodeLine | None
    terms: tuple[Term, ...]
    coefficient: float = 1.0


@dataclass
class Graph:
    """The operations of a session, each with the frame of its backward, made when it is needed."""

    session: Recording
    _runs: dict[int, PairRun] = field(default_factory=dict)

    def run(self, call: Call) -> PairRun:
        """The run of a call's pure backward, line by line. Raises CannotExpand if its lines cannot be seen."""
        if call.number not in self._runs:
            function: Any = plain_function(call.target.backward) or call.target.backward
            with tracing_lines([function]) as tracer:
                function(self.session.seen[call.number].upstream, call.cache)
            if not tracer.frames:
                raise CannotExpand(f"{call.operation}: its backward is no Python function")
            self._runs[call.number] = PairRun(tracer.frames[0])
        return self._runs[call.number]

    def uses(self, place: GradientAddress) -> Iterator[Arrival]:
        """Every use of a parameter: the operations that add to its gradient, with the entry of theirs."""
        for call in self.session.backward_order:
            names, inputs, seen = gradient_names(call.target, 99), inputs_of(call), self.session.seen[call.number]
            for number, parts in seen.params.items():
                for part in parts if place.name in seen.added else ():
                    if part.parameter == place.name and inputs[number] in names:
                        yield Arrival(call, names.index(inputs[number]), part.entry(place.index))

    def outside(self, place: GradientAddress) -> list[tuple[Call, float]]:
        """What layers' own code adds to a parameter's gradient, beside the operations they call."""
        if place.kind != "parameter":
            return []
        layers = (call for call in self.session.calls if not call.operation)
        added = ((call, self.session.seen[call.number].added.get(place.name)) for call in layers)
        return [(call, float(x[place.index])) for call, x in added if x is not None]

    def made(self, arrival: Arrival) -> Making:
        """The line and the products of an entry of a returned gradient."""
        try:
            run = self.run(arrival.call)
            expansion = expand(returned(run, run.root, arrival.gradient, arrival.at))
        except CannotExpand:
            return Making(arrival.call, None, tuple(self._by_upstream(arrival)), arrival.coefficient)
        return Making(arrival.call, expansion.line, expansion.terms, arrival.coefficient)

    def follow(self, call: Call, spot: Spot) -> list[Making]:
        """How a number inside a call's backward is made; in several ways where gradients were added."""
        try:
            expansion = expand(spot)
        except CannotExpand:
            return []
        if expansion.around:  # of no number that depends on dy: a backward is linear in it
            return []
        if expansion.outside is None or expansion.spot is None:
            return [Making(call, expansion.line, expansion.terms)]
        return list(map(self.made, self.arriving(call, expansion.outside, expansion.spot.index)))

    def arrivals(self, place: GradientAddress) -> list[Arrival]:
        """The entries of returned gradients of which a place's gradient is the sum."""
        if place.kind == "parameter":
            return list(self.uses(place))
        call = place.call or self.session.calls[0]
        if place.kind == "output":
            return self.arriving(call, place.part, place.index)
        inputs = list(self.session.checked.inputs.tensors)
        part = float_place(call, place.part) if place.call else inputs.index(place.name)
        if call.operation:
            return [Arrival(call, part, place.index)]
        return self.arriving(call, part, place.index, leaving=True)

    def arriving(self, call: Call, part: int, index: Index, leaving: bool = False) -> list[Arrival]:
        """Where an entry of an upstream gradient comes from; leaving: of what the call returned instead."""
        marks = _Marks(self.session, call, part, index, leaving)
        return list(marks.between(0, marks.count))

    def _by_upstream(self, arrival: Arrival) -> Iterator[Term]:
        """Products with each entry of the upstream gradient: the pair's own backward, one entry at a time."""
        call, run = arrival.call, self.run(arrival.call)
        dy, name = self.session.seen[call.number].upstream, gradient_names(call.target, 99)[arrival.gradient]
        upstream = ast.parse(next(iter(run.root.arguments)), mode="eval").body
        parts = terms(call.target, call.cache, dy, name, arrival.at)
        for part, (values, whole) in enumerate(zip(parts, as_tuple(dy), strict=True)):
            for index in (tuple(map(int, each)) for each in np.argwhere(values)):
                value = float(np.asarray(whole)[index])
                spot = Spot(run, run.root, 0, upstream, index, part if isinstance(dy, tuple) else None)
                slope = Factor(f"∂y/∂{name}", float(values[index]) / value, None)
                yield Term(1.0, (slope, Factor(spot.text, value, spot, index, np.shape(whole))))


@dataclass
class _Marks(Hooks):
    """Finds the returned gradients' entries that arrive at one entry; each has a number, its mark."""

    session: Recording
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

    def between(self, first: int, end: int) -> Iterator[Arrival]:
        """The arrivals with marks from first to end − 1."""
        if end <= first:
            return
        sums = [self._sum(first, end, power) for power in (0, 1, 2)]
        if not any(sums):
            return
        mark = round(sums[1] / sums[0]) if sums[0] else -1
        if sums[1] == mark * sums[0] and sums[2] == mark * mark * sums[0]:
            yield self._arrival(first + mark, sums[0])
        elif end - first > 1:
            middle = (first + end) // 2
            yield from self.between(first, middle)
            yield from self.between(middle, end)

    def _sum(self, first: int, end: int, power: int) -> float:
        self.within, self.power, self.seen = (first, end), power, 0.0
        self.session.run(self)
        return self.seen

    def _arrival(self, mark: int, coefficient: float) -> Arrival:
        number, gradient = max(
            (key for key, start in self.starts.items() if start <= mark), key=self.starts.__getitem__
        )
        call = self.session.calls[number]
        shape = np.shape(as_tuple(self.session.seen[number].gradients)[gradient])
        place = np.unravel_index(mark - self.starts[number, gradient], shape)
        return Arrival(call, gradient, tuple(map(int, place)), coefficient)

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
