"""The number itself: the analytic gradient, both witnesses, gradcheck's verdict; and what it predicts of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from npformer.check.measures import largest
from npformer.check.oracles import Evidence, Oracle, unit
from npformer.check.subject import Subject
from npformer.check.verdict import TOLERANCE, Judge
from npformer.see.explain.place import Place
from npformer.see.explain.session import Session
from npformer.see.record.listening import Hooks, Moving
from npformer.typing import HostArray, HostArrays

NAME = "number"
#: The step of a prediction, and how often it is halved at most.
STEP, HALVINGS = 0.01, 30
#: Errors up to so many units of rounding of the loss are not looked at: their ratio would be off by a thousandth.
NOISE = 1000


class Value(NamedTuple):
    """A gradient entry with its witnesses and the verdict of gradcheck's rule on it."""

    analytic: float
    by_complex: float
    by_central: float
    verdict: str
    note: str


class Prediction(NamedTuple):
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

    whole: Prediction
    half: Prediction
    falls_fourfold: bool


def at_place(session: Session, place: Place) -> Subject:
    """The loss as a function of the array in which a place is."""
    start = np.array(place.array(session), dtype=np.float64)

    def changed(x: HostArray) -> tuple[HostArrays, Hooks | None]:
        if place.call is None:
            return {place.name: x}, None
        return {}, Moving(place.call.number, place.part, x - start, place.kind == "taken")

    def forward(x: HostArray) -> tuple[HostArray, HostArray]:
        loss = session.loss_at(*changed(x))
        return np.array([loss if np.iscomplexobj(x) else loss.real]), x

    def backward(dy: HostArray, x: HostArray) -> HostArray:
        return np.asarray(dy.item() * place.gradients(session, *session.gradients_at(*changed(x))))

    return Subject((forward, backward), [start], names=[NAME])


def value_of(session: Session, place: Place) -> Value:
    """The number with its witnesses, judged by gradcheck's own rules at this entry."""
    subject, analytic = at_place(session, place), place.gradients(session, session.run())
    oracle = Oracle(subject, [(np.ones(1),)])
    asked = [float(each[0]) for each in oracle.along(NAME, unit(analytic.shape, place.index))]
    judge = Judge(
        oracle,
        np.array([largest(session.recording.gradients.values())]),
        TOLERANCE,
        is_analytic=lambda: True,
    )
    claimed = analytic[None]
    parts = [claimed.copy(), claimed.copy(), np.zeros_like(claimed), np.full_like(claimed, np.inf)]
    for part, value in zip(parts, asked, strict=True):  # elsewhere everything agrees: only this place is judged
        part[0, *place.index] = value
    row = judge.row(NAME, claimed, Evidence(*parts), None)
    return Value(float(analytic[place.index]), asked[0], asked[1], row.verdict, row.note)


def means_of(session: Session, place: Place, number: float) -> Means:
    """What a step predicts and changes; the step is halved until the error of the prediction is only rounding.

    The error is a·h² + b·h³ + …, so half the step leaves a quarter of it, as far as the second term is small and no
    gate of ReLU switches on the way. A wrong number would leave half of it: its error is linear in h. The steps shown
    are the largest from which on the error falls by 4, give or take an eighth.
    """
    subject = at_place(session, place)
    start, here = subject.tensors[NAME], session.loss_at({}).real
    noise = NOISE * np.finfo(np.float64).eps * max(1.0, abs(here))

    def predict(step: float) -> Prediction:
        moved = start + step * unit(start.shape, place.index)
        return Prediction(step, step * number, float(subject.outputs({NAME: moved})[0][0]) - here)

    predictions = [predict(STEP)]
    while len(predictions) < 2 or (predictions[-1].error > noise and len(predictions) < HALVINGS):
        predictions.append(predict(predictions[-1].step / 2))
    return steady(predictions, noise)


def steady(predictions: Sequence[Prediction], noise: float) -> Means:
    """The first of these predictions, each with half the step of the one before, from which on the errors fall by 4.

    Errors of at most noise are not looked at.
    """
    errors = [each.error for each in predictions]
    falls = [abs(one / other - 4) <= 0.5 for one, other in pairwise(errors) if other > noise]
    last_wrong = max((i for i, is_right in enumerate(falls) if not is_right), default=-1)
    holds = not falls or last_wrong < len(falls) - 1
    first = last_wrong + 1 if holds else 0
    return Means(predictions[first], predictions[first + 1], holds)
