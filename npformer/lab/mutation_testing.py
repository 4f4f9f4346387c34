"""Mutation testing of the gradient check: every version of every backward with a single mistake, and its result.

The mutants are not hand-picked: ``check/causes/mutants.py`` makes them from the syntax trees of the backwards of
operations and layers. Each replaces the right one and is checked on the catalogue's
cases. A mutant is *killed* if a check calls it wrong, or if it crashes. A mutant that survives although it
changes a gradient would be a hole in the check; its result names the gradient, the case and the size of the
change. A mutant that changes no gradient is *equivalent*, so it is no mistake.

For each killed mutant the diagnosis is judged: it names the mistake, another change that makes the gradients right, or
nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npformer import functional, layers
from npformer.backend import Backend, get_backend, plain_pair
from npformer.check.cases.case import Case
from npformer.check.cases.catalogue import catalogue
from npformer.check.causes.mutants import Mutant, mutants
from npformer.check.measures import largest, max_abs, scale_of
from npformer.check.subject import Subject
from npformer.io.progress_bar import watched
from npformer.typing import HostArrays

KILLED, CRASHED, EQUIVALENT, SURVIVED = "killed", "crashed", "equivalent", "SURVIVED"
#: A mutant that changes no gradient by more than this (scaled by the largest entry) is equivalent.
CHANGES = 1e-8


@dataclass(frozen=True)
class MutantCase:
    """A mutant with its target and the cases that could notice it."""

    mutant: Mutant
    op: str | None  # name of the operation whose backward it replaces, or
    owner: type | None  # the layer class whose method it replaces
    cases: tuple[Case, ...]

    def put_into(self, case: Case) -> Case:
        """The case with the mutant instead of the right code: in the table of operations, or in a subclass."""
        if self.op is not None:
            pair = plain_pair(getattr(functional, f"{self.op}_forward"), self.mutant.build)
            changes = {self.op: pair}
            return replace(case, build=lambda b: case.build(replace(b, ops=replace(b.ops, **changes))))
        wrong = type(
            "Wrong", (self.owner or object,), {self.mutant.function: self.mutant.build, "__module__": "mutant"}
        )

        def build(backend: Backend) -> Any:
            layer = case.build(backend)
            for part in layer.all_layers():
                if type(part) is self.owner:
                    part.__class__ = wrong
            return layer

        return replace(case, build=build)


@dataclass(frozen=True)
class MutantResult:
    """The result of one mutant."""

    description: str
    operator: str
    outcome: str
    case: str  # the case that killed it, or in which it changes a gradient and survives
    cause: str = ""  # the diagnosis' label
    diagnosis: str = ""

    @property
    def judgement(self) -> str:
        """The diagnosis judged: right, same effect (another change that mends the gradients), unknown or wrong."""
        if self.cause in ("", "unknown"):
            return "unknown"
        if self.cause.startswith(EFFECTS.get(self.operator, "none")):
            return "right"
        return "same effect" if " should " in self.diagnosis else "wrong"


#: The causes that tell of a mistake.
EFFECTS = {
    "change a sign": ("sign",),
    "scale by 2": ("scaled by 2", "extra factor"),
    "return zero": ("zero", "extra factor"),
    "drop a transpose": ("transposed",),
    "drop a factor": ("scaled by", "missing factor", "factor"),
    "sum to mean": ("scaled by", "summed axis"),
    "drop a term": ("term missing", "missing term", "not accumulated"),
    "swap outputs": ("swapped outputs",),
}


def mutant_cases() -> list[MutantCase]:
    """All mutants of the operations' backwards and of the layers' methods named …backward."""
    all_cases = []
    cases = catalogue()
    backend = get_backend("numpy", kernels="plain", threads=1)
    for op in vars(backend.ops):
        its_cases = tuple(case for case in cases if case.group == "op" and case.name.partition(":")[0] == op)
        all_cases += [MutantCase(m, op, None, its_cases) for m in mutants(getattr(functional, f"{op}_backward"))]
    layer_cases = [case for case in cases if case.group == "layer"]
    parts = {case.name: set(map(type, case.build(backend).all_layers())) for case in layer_cases}
    for layer in (getattr(layers, name) for name in layers.__all__):
        its_cases = tuple(case for case in layer_cases if layer in parts[case.name])
        for name in dir(layer):  # inherited ones, too
            method = getattr(layer, name)
            if its_cases and name.endswith("backward") and method is not layers.Layer.backward:
                all_cases += [MutantCase(m, None, layer, its_cases) for m in mutants(method)]
    return all_cases


def mutation_test(sample: int | None = None, seed: int = 0) -> list[MutantResult]:
    """Judge all mutants, or a seeded sample of them, with NumPy in float64."""
    backend = get_backend("numpy", dtype="float64", kernels="plain", threads=1)
    chosen = mutant_cases()
    if sample is not None:
        chosen = random.Random(seed).sample(chosen, min(sample, len(chosen)))
    with np.errstate(all="ignore"):  # mutants divide by zero and overflow
        tried = watched(chosen, "mutants", name=lambda mutant_case: mutant_case.mutant.describe())
        return [judge(mutant_case, backend) for mutant_case in tried]


def judge(mutant_case: MutantCase, backend: Backend) -> MutantResult:
    """Run the mutant on the cases in which it changes a gradient, until one of them kills it."""
    mutant = mutant_case.mutant
    named = mutant.describe(), mutant.operator
    survived = None
    for case in mutant_case.cases:
        wrong = mutant_case.put_into(case)
        try:
            change = _change(case, wrong, backend)
            report = wrong.check(backend) if change else None
        except Exception as error:
            return MutantResult(*named, CRASHED, case.name, "crash", type(error).__name__)
        if report is not None and not report.ok:
            row = next(iter(report.wrong), report.worst)
            return MutantResult(*named, KILLED, case.name, row.cause, row.diagnosis)
        survived = survived or (
            report and MutantResult(*named, SURVIVED, case.name, "", f"{change}, and passed as right")
        )
    return survived or MutantResult(*named, EQUIVALENT, "")


def _change(case: Case, wrong: Case, backend: Backend) -> str:
    """The gradient that differs most from the right one, and the difference; "" if all are equal."""
    right, got = _gradients(case, backend), _gradients(wrong, backend)
    most = largest(right.values())
    moved = {}
    for name, n in right.items():
        if got[name].shape != n.shape:
            return f"the gradient of {name} changes its shape"
        moved[name] = max_abs(got[name] - n) / scale_of(n, most)
    worst = max(moved, key=lambda name: np.nan_to_num(moved[name], nan=np.inf))
    return "" if moved[worst] <= CHANGES else f"the gradient of {worst} changes by {moved[worst]:.1e} of its size"


def _gradients(case: Case, backend: Backend) -> HostArrays:
    checked = Subject(case.build(backend), case.inputs, case.options, backend.device)
    rng = np.random.default_rng(5)
    return checked.gradients(tuple(np.asarray(rng.normal(size=y.shape)) for y in checked.outputs({})))


def summary(results: list[MutantResult]) -> dict[str, Any]:
    """Counts of results, and of the diagnoses of killed mutants."""
    outcomes = Counter(result.outcome for result in results)
    killed = [result for result in results if result.outcome == KILLED]
    judged = Counter(result.judgement for result in killed)
    return {
        "mutants": len(results),
        **{outcome: outcomes[outcome] for outcome in (KILLED, CRASHED, EQUIVALENT, SURVIVED)},
        "diagnosis": {label: judged[label] for label in ("right", "same effect", "unknown", "wrong")},
    }
