"""The ways of the gradient through the residual sums: at each sum, through the sub-layer or past it.

A sum t = x + Drop(f) hands its gradient to both terms: dx goes past the sub-layer, df through it. Backward is linear,
so the number that is explained is a sum over ways, one choice at each sum that a way passes. Each part is found by a
re-run:

    of one sum      the number with one of its two branches set to 0, or both: through, past, and what never came there
    of a way        the gradient that reached a sum is sent on from there alone, into one branch, all other sums closed

What a branch sends to the place itself is the end of a way; what it sends to other sums goes on from those. So the ends
add up to the number, with nothing counted twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.see.explain.number import GradientAddress
from npformer.see.record.calls import Call, Hooks
from npformer.see.record.recording import LOSS, SUMS, Recording

#: Up to this many sums every way is found; of more, those that a search for the strongest finds.
EXACT = 12
#: Re-runs of the search for the strongest ways.
MOST_RUNS = 1500

PAST, THROUGH, NEITHER = 0, 1, 2
_OPEN = {PAST: (1.0, 0.0), THROUGH: (0.0, 1.0), NEITHER: (0.0, 0.0)}

#: (number of the sum, PAST or THROUGH) for each sum that a way passes.
Choices: TypeAlias = tuple[tuple[int, int], ...]


class ResidualSum(NamedTuple):
    """A residual sum that the place's gradient may pass, and the parts of the number by what happens there."""

    call: Call
    name: str  # of the sub-layer whose output it adds
    through: float
    past: float
    elsewhere: float  # never came to this sum


class ResidualPath(NamedTuple):
    """The choices at the sums that it passes, the one nearest to the loss first, and its part of the number."""

    choices: Choices
    value: float


@dataclass(frozen=True)
class Paths:
    """The sums, the ways by their size, and the part of the number on ways that were not found (0 if all were)."""

    sums: tuple[ResidualSum, ...]
    ways: tuple[ResidualPath, ...]
    remainder: float
    exact: bool


@dataclass
class Gates(Hooks):
    """Closes branches of sums, and sends a gradient on from one of them. Sums are known by their calls' numbers."""

    open_at: dict[int, tuple[float, float]]  # which of (past, through) pass; of other sums both do
    replaced: dict[int, Any] = field(default_factory=dict)  # what a sum, or the target, 0, gets in place of its dy
    stops: Container[int] = ()  # the sums that get nothing of what comes to them, which is kept:
    arrived: dict[int, Any] = field(default_factory=dict)

    def entering(self, call: Call | None, dy: Any) -> Any:
        """Keep what came to a sum; the one that sends gets what it is to send."""
        if call is None:
            return dy
        if call.operation == LOSS and self.replaced:  # nothing comes from there
            return _zeros(dy)
        if call.number in self.stops and call.number not in self.replaced:
            self.arrived[call.number] = dy
            return _zeros(dy)
        return self.replaced.get(call.number, dy)

    def leaving(self, call: Call | None, dy: Any, gradients: Any, into: Any) -> Any:
        """Set the closed branches to 0."""
        if call is None or call.number not in self.open_at:
            return gradients
        past, through, *others = as_tuple(gradients)
        passes = self.open_at[call.number]
        return like(gradients, [passes[PAST] * past, passes[THROUGH] * through, *others])


def paths(session: Recording, place: GradientAddress, number: float) -> Paths:
    """The sums and the ways to a place, whose gradient is number."""
    sums = _sums(session, place, number)
    if not sums:
        return Paths((), (ResidualPath((), number),), 0.0, True)
    walk = _Walk(session, place, [each.call for each in sums])
    exact = len(sums) <= EXACT
    ways = sorted(walk.every_way() if exact else walk.strongest(), key=lambda way: -abs(way.value))
    remainder = 0.0 if exact else number - sum(way.value for way in ways)
    return Paths(sums, tuple(ways), remainder, exact)


def _sums(session: Recording, place: GradientAddress, number: float) -> tuple[ResidualSum, ...]:
    """The sums on the way from the loss to the place, the one nearest to the loss first."""
    sums = []
    for call in session.backward_order:
        if call.operation not in SUMS:
            continue
        elsewhere, no_past, no_through = (
            place.gradient(session, Gates({call.number: _OPEN[branch]})) for branch in (NEITHER, THROUGH, PAST)
        )
        if not (elsewhere == no_past == no_through == number):
            through, past = no_past - elsewhere, no_through - elsewhere
            name = next(each.name for each in session.residuals if each.call is call)
            sums.append(ResidualSum(call, name, through, past, elsewhere))
    return tuple(sums)


class _Walk:
    """Follows the gradient from sum to sum."""

    def __init__(self, session: Recording, place: GradientAddress, sums: list[Call]) -> None:
        self.session, self.place = session, place
        self.numbers = {call.number: i for i, call in enumerate(sums)}
        #: The sums in which the place is itself, as a gain of their norm is.
        self.ending = {
            call.number for call in sums if call is place.call or place.name in session.seen[call.number].added
        }
        self.runs = 0

    def every_way(self) -> Iterator[ResidualPath]:
        """Each way that ends at the place, found from the loss on."""
        value, arrived = self._run(self._gates())
        waiting: list[tuple[Choices, dict[int, Any]]] = [((), arrived)]
        yield from _ending((), value)
        while waiting:
            choices, arrived = waiting.pop()
            for number, dy in arrived.items():
                for longer, value, further in self._sent(choices, number, dy):
                    yield from _ending(longer, value)
                    waiting.append((longer, further))

    def strongest(self) -> Iterator[ResidualPath]:
        """The ways whose beginnings carry most: a search that goes on from the largest part first."""
        value, arrived = self._run(self._gates())
        yield from _ending((), value)
        order = count()
        heap: list[tuple[float, int, Choices, int, Any]] = [
            (-self._carried(n, dy), next(order), (), n, dy) for n, dy in arrived.items()
        ]
        heapq.heapify(heap)
        while heap and self.runs < MOST_RUNS:
            _, _, choices, number, dy = heapq.heappop(heap)
            for longer, value, further in self._sent(choices, number, dy):
                yield from _ending(longer, value)
                for following, arrived_dy in further.items():
                    carried = self._carried(following, arrived_dy)
                    heapq.heappush(heap, (-carried, next(order), longer, following, arrived_dy))

    def _gates(self) -> Gates:
        """All sums are closed: what comes from the loss by no sum at all, and what reaches the sums first."""
        return Gates(dict.fromkeys(self.numbers, _OPEN[NEITHER]), {}, self.numbers)

    def _run(self, hooks: Gates) -> tuple[float, dict[int, Any]]:
        """What ends at the place, and what reaches the sums that stop it; from the loss, if no gradient is given."""
        if hooks.replaced:  # nothing comes from the loss
            hooks.replaced.setdefault(0, _zeros(self.session.seen[0].upstream))
        value = self.place.gradient(self.session, hooks)
        self.runs += 1
        nonzero = {
            n: dy for n, dy in hooks.arrived.items() if any(part is not None and np.any(part) for part in as_tuple(dy))
        }
        return value, nonzero

    def _sent(self, choices: Choices, number: int, dy: Any) -> Iterator[tuple[Choices, float, dict[int, Any]]]:
        """Both ways on from a sum: (choices, the part that ends at the place, what reaches other sums).

        If the place is in the sum itself, as a gain of its norm is, a way ends there, before a branch is chosen.
        """
        here = 0.0
        if number in self.ending:
            here, _ = self._send(number, NEITHER, dy)
            yield choices, here, {}
        for branch in (THROUGH, PAST):
            value, further = self._send(number, branch, dy)
            yield (*choices, (self.numbers[number], branch)), value - here, further

    def _send(self, number: int, branch: int, dy: Any) -> tuple[float, dict[int, Any]]:
        """Send a gradient on from a sum, into one branch: what ends at the place, and what reaches other sums."""
        hooks = self._gates()
        hooks.open_at[number], hooks.replaced[number] = _OPEN[branch], dy
        return self._run(hooks)

    def _carried(self, number: int, dy: Any) -> float:
        """The size of the part of the number that goes on from a sum, all later sums open."""
        return abs(self._run(Gates({}, {number: dy}))[0])


def _ending(choices: Choices, value: float) -> Iterator[ResidualPath]:
    if value != 0:
        yield ResidualPath(choices, value)


def _zeros(dy: Any) -> Any:
    if isinstance(dy, tuple):
        return tuple(_zeros(part) for part in dy)
    return None if dy is None else np.zeros_like(dy)
