"""How a number of a backward pass is made: by which line of which operation, from which numbers nearer to the loss.

Within an operation, ``expand`` reads the line. Between operations, layers only move and add gradients; which entry of
which operation's gradient arrives where is found by a re-run: the returned gradients carry marks, as imaginary
parts, and each operation takes the marks off what it receives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.see.explain.entries import CannotExpand, Index, PairRun, Spot, returned
from npformer.see.explain.number import GradientAddress, float_place
from npformer.see.explain.products import CodeLine, Factor, Term, expand, terms
from npformer.see.record.calls import Call, Hooks, gradient_names
from npformer.see.record.lines import plain_function, tracing_lines
from npformer.see.record.recording import Recording
from npformer.typing import HostArray

#: A gradient: the number of a call, its "upstream" or its "gradients", and which of them.
GradientKey: TypeAlias = tuple[int, str, int]


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

    def _uses(self, place: GradientAddress) -> Iterator[Arrival]:
        """Every use of a parameter: the operations that add to its gradient, with the entry of theirs."""
        for call in self.session.backward_order:
            names, inputs, seen = gradient_names(call.target, 99), call.input_names, self.session.seen[call.number]
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
            return list(self._uses(place))
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
        seen, way = self.session.seen[call.number], "gradients" if leaving else "upstream"
        shape = np.shape(as_tuple(seen.gradients if leaving else seen.upstream)[part])
        flat, marks = np.array([np.ravel_multi_index(index, shape) if index else 0]), Marks(self.session)
        found = marks.between(0, marks.count, {(call.number, way, part): flat})
        return [marks.arrival(int(mark), float(c)) for _, _, by, cs in found for mark, c in zip(by, cs, strict=True)]

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


class Marks(Hooks):
    """Finds which entries of the gradients that operations returned arrive where; each entry has a number, its mark."""

    def __init__(self, session: Recording) -> None:
        self.session, self.device = session, session.checked.device
        self.returned: list[tuple[Call, int, Index]] = []  # an operation, and which of its gradients, of this shape
        starts = [0]
        for call in session.backward_order:
            for number, gradient in enumerate(as_tuple(session.seen[call.number].gradients)):
                if gradient is not None:
                    self.returned.append((call, number, np.shape(gradient)))
                    starts.append(starts[-1] + int(np.size(gradient)))
        *self.starts, self.count = starts
        named = zip(self.returned, self.starts, strict=True)
        self._begins = {(call.number, number): start for (call, number, _), start in named}

    def between(
        self, first: int, end: int, wanted: dict[GradientKey, HostArray]
    ) -> Iterator[tuple[GradientKey, HostArray, HostArray, HostArray]]:
        """Of entries of these gradients, by flat indices: (gradient, some of its entries, what arrives, coefficients).

        Looked for are marks from first to end − 1. Three sums tell a single one that arrives; where more do, each half
        of the marks is looked for.
        """
        if end <= first or not wanted:
            return
        sums, left = [self._sums(first, end, power, wanted) for power in (0, 1, 2)], {}
        for key, flats in wanted.items():
            once, by_mark, by_square = (each[key] for each in sums)
            marks = np.round(np.divide(by_mark, once, out=np.full(once.shape, -1.0), where=once != 0))
            is_single = (by_mark == marks * once) & (by_square == marks * marks * once) & (once != 0)
            if is_single.any():
                yield key, flats[is_single], first + marks[is_single].astype(np.int64), once[is_single]
            several = ((once != 0) | (by_mark != 0) | (by_square != 0)) & ~is_single
            if several.any():
                left[key] = flats[several]
        if end - first > 1:
            middle = (first + end) // 2
            yield from self.between(first, middle, left)
            yield from self.between(middle, end, left)

    def arrival(self, mark: int, coefficient: float) -> Arrival:
        """The entry with a mark."""
        which = int(np.searchsorted(self.starts, mark, "right")) - 1
        call, number, shape = self.returned[which]
        place = np.unravel_index(mark - self.starts[which], shape)
        return Arrival(call, number, tuple(map(int, place)), coefficient)

    def _sums(self, first: int, end: int, power: int, wanted: dict[GradientKey, HostArray]) -> dict[GradientKey, Any]:
        self._range, self._wanted = (first, end, power), wanted
        self._read = {key: np.zeros(flats.shape) for key, flats in wanted.items()}
        self.session.run(self, "complex128")
        return self._read

    def entering(self, call: Call | None, dy: Any) -> Any:
        """Read the marks that arrive; an operation gets its upstream gradient without marks."""
        self._note(call, "upstream", dy)
        if call is None or not call.operation:
            return dy
        return like(dy, [None if part is None else self._placed(np.real(self._host(part))) for part in as_tuple(dy)])

    def leaving(self, call: Call | None, gradients: Any) -> Any:
        """Mark what an operation returns; read what another call returns."""
        if call is None or not call.operation or gradients is None:
            self._note(call, "gradients", gradients)
            return gradients
        return like(gradients, [self._marked(call.number, i, g) for i, g in enumerate(as_tuple(gradients))])

    def _marked(self, number: int, which: int, gradient: Any) -> Any:
        first, end, power = self._range
        start = self._begins.get((number, which))
        if start is None or start >= end or start + np.size(gradient) <= first:
            return gradient
        marks = start + np.arange(np.size(gradient)).reshape(np.shape(gradient))
        in_range = (marks >= first) & (marks < end)
        return gradient + self._placed(1j * np.where(in_range, (marks - first).astype(float) ** power, 0.0))

    def _note(self, call: Call | None, way: str, x: Any) -> None:
        for part, gradient in enumerate(() if x is None else as_tuple(x)):
            key = (-1 if call is None else call.number, way, part)
            if key in self._wanted and gradient is not None:
                self._read[key] = np.imag(self._host(gradient)).reshape(-1)[self._wanted[key]].astype(np.float64)

    def _host(self, x: Any) -> HostArray:
        return np.asarray(self.device.host(x))

    def _placed(self, x: HostArray) -> Any:
        return self.device.array(np.ascontiguousarray(x), "complex128" if np.iscomplexobj(x) else "float64")
