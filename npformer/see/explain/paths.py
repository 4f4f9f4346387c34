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
import math
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

PAST, THROUGH, NEITHER = "past", "through", "neither"
_OPEN = {PAST: (1.0, 0.0), THROUGH: (0.0, 1.0), NEITHER: (0.0, 0.0)}

#: (number of the sum, PAST or THROUGH) for each sum that a way passes.
Choices: TypeAlias = tuple[tuple[int, str], ...]
#: Number of the sum's call -> the gradient that reached it.
Arrived: TypeAlias = dict[int, Any]


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

    def leaving(self, call: Call | None, gradients: Any) -> Any:
        """Set the closed branches to 0."""
        if call is None or call.number not in self.open_at:
            return gradients
        past, through, *others = as_tuple(gradients)
        goes_past, goes_through = self.open_at[call.number]
        return like(gradients, [goes_past * past, goes_through * through, *others])


def paths(session: Recording, place: GradientAddress, number: float) -> Paths:
    """The sums and the ways to a place, whose gradient is number."""
    sums = _sums(session, place, number)
    if not sums:
        return Paths((), (ResidualPath((), number),), 0.0, True)
    walk = _Walk(session, place, [each.call for each in sums])
    exact = len(sums) <= EXACT
    ways = sorted(walk.ways(math.inf if exact else MOST_RUNS), key=lambda way: -abs(way.value))
    return Paths(sums, tuple(ways), 0.0 if exact else number - sum(way.value for way in ways), exact)


def _sums(session: Recording, place: GradientAddress, number: float) -> tuple[ResidualSum, ...]:
    """The sums on the way from the loss to the place, the one nearest to the loss first."""
    sums, names = [], {id(each.call): each.name for each in session.residuals}
    for call in session.backward_order:
        if call.operation not in SUMS:
            continue
        elsewhere, no_past, no_through = (
            place.gradient(session, Gates({call.number: _OPEN[branch]})) for branch in (NEITHER, THROUGH, PAST)
        )
        if not (elsewhere == no_past == no_through == number):
            sums.append(ResidualSum(call, names[id(call)], no_past - elsewhere, no_through - elsewhere, elsewhere))
    return tuple(sums)


class _Walk:
    """Follows the gradient from sum to sum."""

    def __init__(self, session: Recording, place: GradientAddress, sums: list[Call]) -> None:
        self.session, self.place, self.runs = session, place, 0
        self.numbers = {call.number: i for i, call in enumerate(sums)}
        #: The sums in which the place is itself, as a gain of their norm is.
        self.ending = {
            call.number for call in sums if call is place.call or place.name in session.seen[call.number].added
        }

    def ways(self, most: float) -> Iterator[ResidualPath]:
        """Each way that ends at the place, found from the loss on; those whose beginnings carry most, by most re-runs.

        Without a limit the order in which ways are found does not matter.
        """
        order, heap = count(), list[tuple[float, int, Choices, int, Any]]()

        def note(choices: Choices, value: float, arrived: Arrived) -> Iterator[ResidualPath]:
            if value != 0:
                yield ResidualPath(choices, value)
            for number, dy in arrived.items():
                # the size of the part of the number that goes on from there, all later sums open
                carried = 0.0 if most == math.inf else abs(self._run(Gates({}, {number: dy}))[0])
                heapq.heappush(heap, (-carried, next(order), choices, number, dy))

        yield from note((), *self._run(self._closed()))
        while heap and self.runs < most:
            _, _, choices, number, dy = heapq.heappop(heap)
            here = 0.0
            if number in self.ending:  # a way ends in the sum itself, before a branch is chosen
                here, _ = self._send(number, NEITHER, dy)
                yield from note(choices, here, {})
            for branch in (THROUGH, PAST):
                value, arrived = self._send(number, branch, dy)
                yield from note((*choices, (self.numbers[number], branch)), value - here, arrived)

    def _closed(self) -> Gates:
        """All sums are closed: what comes from the loss by no sum at all, and what reaches the sums first."""
        return Gates(dict.fromkeys(self.numbers, _OPEN[NEITHER]), {}, self.numbers)

    def _send(self, number: int, branch: str, dy: Any) -> tuple[float, Arrived]:
        """Send a gradient on from a sum, into one branch: what ends at the place, and what reaches other sums."""
        hooks = self._closed()
        hooks.open_at[number], hooks.replaced[number] = _OPEN[branch], dy
        return self._run(hooks)

    def _run(self, hooks: Gates) -> tuple[float, Arrived]:
        """What ends at the place, and what reaches the sums that stop it; from the loss, if no gradient is given."""
        if hooks.replaced:
            hooks.replaced.setdefault(0, _zeros(self.session.seen[0].upstream))
        self.runs += 1
        value = self.place.gradient(self.session, hooks)
        parts = {number: as_tuple(dy) for number, dy in hooks.arrived.items()}
        came = [number for number, each in parts.items() if any(part is not None and np.any(part) for part in each)]
        return value, {number: hooks.arrived[number] for number in came}


def _zeros(dy: Any) -> Any:
    return like(dy, [None if part is None else np.zeros_like(part) for part in as_tuple(dy)])
