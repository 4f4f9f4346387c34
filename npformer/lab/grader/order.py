"""Finds right gradients that a backward returns in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.judge import Result, compare
from npformer.lab.grader.tree import as_tuple, leaves
from npformer.proof.measures import largest


class Order(NamedTuple):
    """Where the right gradients stand; a place has the name of the gradient that belongs there."""

    held: dict[str, str]  # place -> the gradient that stands there, for those in each other's places
    right: tuple[str, ...]  # the gradients in their own places

    def said(self, exercise: Exercise) -> str:
        """The finding in words."""
        came = [self.held.get(place, place) for place in exercise.gradients if place in {*self.held, *self.right}]
        wanted = ", ".join(exercise.gradients)
        if len(came) == len(exercise.gradients):
            return f"these are right, in the order {', '.join(came)}; return them in the order {wanted}"
        return f"{' and '.join(self.held.values())} are right, in each other's places; the order is {wanted}"


def order_of(exercise: Exercise, outcomes: Sequence[Result]) -> Order:
    """The order on every case in which backward returned as many gradients as were asked for."""
    returned = [t for t in outcomes if len(t.returned) == len(exercise.gradients) and not t.other_forward]
    if not returned:
        return Order({}, ())
    fits = [_fits(exercise, outcome) for outcome in returned]
    held = {place: set.intersection(*(each[place] for each in fits)) for place in exercise.gradients}
    right = tuple(place for place in held if place in held[place])
    left = held.keys() - set(right)
    found = {place: min(held[place] & left) for place in exercise.gradients if place in left and held[place] & left}
    while found.keys() != set(found.values()):  # a gradient stands in two places, or where nothing was lost
        found = {place: name for place, name in found.items() if place in found.values() and name in found}
    return Order(found, right)


def _fits(exercise: Exercise, outcome: Result) -> dict[str, set[str]]:
    """Place -> the gradients that what stands there equals."""
    truths = as_tuple(outcome.case.gradients)
    most = largest(np.asarray(x) for truth in truths for _, x in leaves("", truth))
    named = dict(zip(exercise.gradients, truths, strict=True))
    return {
        place: {name for name, truth in named.items() if _equal(came, truth, most)}
        for place, came in zip(exercise.gradients, outcome.returned, strict=True)
    }


def _equal(came: Any, truth: Any, most: float) -> bool:
    ours, theirs = dict(leaves("", truth)), dict(leaves("", came))
    return ours.keys() == theirs.keys() and not any(
        compare(theirs[name], np.asarray(x), most).problem for name, x in ours.items()
    )
