"""The gradient check on trial: every single-mistake version of every backward, and what becomes of it.

The mutants are nobody's choice: ``proof/mutants.py`` makes them from the syntax trees of the operations'
backwards and of the layers'. Each is put in the place of the right one and checked on the catalogue's
cases. *Killed* is a mutant that some check calls wrong, or that crashes; one that survives although it
changes a gradient would be a hole in the check; one that changes none is *equivalent*, no mistake at all.

For each killed mutant the diagnosis is judged: the same mistake named, another mistake named that gives
the very same numbers, a pattern, unknown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npformer import functional, layers
from npformer.backend import Backend, get_backend, plain_pair
from npformer.proof.catalogue import Case, catalogue
from npformer.proof.mutants import Mutant, mutants
from npformer.proof.report import WRONG
from npformer.proof.subject import Host, subject

KILLED, CRASHED, EQUIVALENT, SURVIVED = "killed", "crashed", "equivalent", "SURVIVED"
#: A mutant that changes no gradient by more than this (scaled by the largest entry) is equivalent.
CHANGES = 1e-8


@dataclass(frozen=True)
class Defendant:
    """A mutant with the place it goes to and the cases that could see it."""

    mutant: Mutant
    op: str | None  # name of the operation whose backward it replaces, or
    owner: type | None  # the layer class whose method it replaces
    cases: tuple[Case, ...]

    @contextmanager
    def in_place(self, backend: Backend) -> Iterator[Backend]:
        """A backend on which, and a time during which, the mutant stands in the place of the right code."""
        if self.op is not None:
            pair = plain_pair(getattr(functional, f"{self.op}_forward"), self.mutant.build)
            yield replace(backend, ops=replace(backend.ops, **{self.op: pair}))
            return
        name = self.mutant.function
        right = getattr(self.owner, name)
        setattr(self.owner, name, self.mutant.build)
        try:
            yield backend
        finally:
            setattr(self.owner, name, right)


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    description: str
    operator: str
    fate: str
    case: str  # that killed it
    cause: str = ""  # the diagnosis' label
    diagnosis: str = ""

    @property
    def judgement(self) -> str:
        """Of the diagnosis: right, same effect (another mistake with the very same numbers), unknown or wrong."""
        if self.cause in ("", "unknown"):
            return "unknown"
        if self.cause == self.operator or self.cause.startswith(PATTERNS.get(self.operator, "no pattern")):
            return "right"
        return "same effect" if "became" in self.diagnosis else "wrong"


#: What a mistake looks like from outside, where there is no reference to compare with.
PATTERNS = {
    "change a sign": "sign",
    "scale by 2": "scaled by 2",
    "return zero": "zero",
    "drop a transpose": "transposed",
    "drop a factor": "scaled by",
    "sum to mean": "scaled by",
    "drop a term": "term missing",
}


def defendants() -> list[Defendant]:
    """All mutants, of the operations' backwards and of the layers' methods called …backward."""
    found = []
    cases = catalogue()
    for op in vars(get_backend("numpy").ops):
        own = tuple(case for case in cases if case.group == "op" and case.name.split(":")[0] == op)
        found += [Defendant(m, op, None, own) for m in mutants(getattr(functional, f"{op}_backward"))]
    layer_cases = [case for case in cases if case.group == "layer"]
    parts = {case.name: _classes(case.build(get_backend("numpy"))) for case in layer_cases}
    for layer in (getattr(layers, name) for name in layers.__all__):
        own = tuple(case for case in layer_cases if layer in parts[case.name])
        for name, method in vars(layer).items():
            if own and name.endswith("backward") and callable(method):
                found += [Defendant(m, None, layer, own) for m in mutants(method)]
    return found


def _classes(layer: Any) -> set[type]:
    """The classes of a layer and of all layers in it."""
    inner = (part for _, part in layer._members() if isinstance(part, layers.Layer))
    return {type(layer)}.union(*map(_classes, inner))


def trial(sample: int | None = None, seed: int = 0) -> list[Outcome]:
    """Judge all mutants, or a seeded sample of them, with NumPy in float64."""
    backend = get_backend("numpy", dtype="float64")
    chosen = defendants()
    if sample is not None:
        chosen = random.Random(seed).sample(chosen, min(sample, len(chosen)))
    with np.errstate(all="ignore"):  # mutants divide by zero and overflow
        return [judge(defendant, backend) for defendant in chosen]


def judge(defendant: Defendant, backend: Backend) -> Outcome:
    """Run the cases on one mutant until one of them kills it."""
    mutant = defendant.mutant
    for case in defendant.cases:
        try:
            with defendant.in_place(backend) as patched:
                report = case.check(patched)
        except Exception as error:
            return Outcome(mutant.describe(), mutant.operator, CRASHED, case.name, "crash", type(error).__name__)
        if not report.ok:
            row = next((row for row in report.rows if row.verdict == WRONG), report.worst)
            return Outcome(mutant.describe(), mutant.operator, KILLED, case.name, row.cause, row.diagnosis)
    fate = SURVIVED if any(_changes(defendant, case, backend) for case in defendant.cases) else EQUIVALENT
    return Outcome(mutant.describe(), mutant.operator, fate, "")


def _changes(defendant: Defendant, case: Case, backend: Backend) -> bool:
    """Whether the mutant's gradients differ from the right ones."""
    right = _gradients(case, backend)
    with defendant.in_place(backend) as patched:
        wrong = _gradients(case, patched)
    return any(np.max(np.abs(wrong[n] - right[n]), initial=0.0) > CHANGES * np.max(np.abs(right[n])) for n in right)


def _gradients(case: Case, backend: Backend) -> dict[str, Host]:
    checked = subject(case.build(backend), case.inputs, case.options, backend.device)
    rng = np.random.default_rng(5)
    return checked.gradients(tuple(np.asarray(rng.normal(size=y.shape)) for y in checked.outputs({})))


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Counts: fates, and of the killed ones' diagnoses."""
    fates = Counter(outcome.fate for outcome in outcomes)
    killed = [outcome for outcome in outcomes if outcome.fate == KILLED]
    judged = Counter(outcome.judgement for outcome in killed)
    return {
        "mutants": len(outcomes),
        **{fate: fates[fate] for fate in (KILLED, CRASHED, EQUIVALENT, SURVIVED)},
        "diagnosis": {label: judged[label] for label in ("right", "same effect", "unknown", "wrong")},
    }
