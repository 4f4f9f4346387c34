"""What finds a bug while it is in the program: the gradient check, an invariant, numbers beside the right ones."""

import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.museum.empty_tests import EMPTY_TESTS, first_of, in_digits
from benchmarks.museum.scenes import SCENES
from npformer import functional
from npformer.backend import get_backend
from npformer.check import catalogue, certify, gradcheck
from npformer.check.causes.patterns import UNKNOWN
from npformer.check.subject import Subject
from npformer.errors import GradientError
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import changed_functions, noted, patched

#: The models that together use both orders, both activations, and tied tables.
MODELS = ("post, relu, untied", "pre, gelu, tied")
#: So many cases of each kind of layer are asked.
LAYERS = 2
#: Two numbers are the same within this, relative to 1 and the right one.
ROUNDING = 1e-10


class Finding(NamedTuple):
    """The name of what was asked, the answer of the case or scene that was asked, and the diagnosis."""

    name: str
    said: str
    diagnosis: str = ""


def examine(bug):
    """The first finding: of the gradient check, else of an invariant, else of numbers beside the right ones."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = asked_alike(bug)
        if answer:
            return Finding("the checker's answer", answer)
        concerned = [name for name, (ran, _) in prepared().items() if ran & bug.targets]
        with patched(bug.edits) as backend:
            answers = ((way, name, way(name, backend)) for way in WAYS for name in concerned)
            way, name, found = next((answer for answer in answers if answer[2]), (None, "", None))
        if found is None:
            raise GradientError(f"{bug.id}: expected something to find this bug, but nothing does")
        return explained(bug, name, found) if way is by_gradient else found


def asked_alike(bug):
    """What the gradient check says at the inputs of a test that passes on the wrong code; "" without such a test."""
    test = EMPTY_TESTS.get(bug.test)
    if test is None:
        return ""
    with patched(bug.edits):
        if not test.passes():
            raise GradientError(f"{bug.id}: expected the test to pass on the wrong code, but it fails")
        return test.answer()


@cache
def prepared():
    """Name of a case or scene -> the bugs' functions that it runs, and its numbers, on the right program."""
    backend, made = get_backend("numpy", dtype="float64", kernels="plain", threads=1), {}
    with noted({target for bug in BUGS for target in bug.targets}) as ran:
        for name in (*cases(), *SCENES):
            ran.clear()
            numbers = numbers_of(name, backend)
            if name in cases():
                checked = checked_of(name, backend)
                checked.gradients(tuple(map(np.ones_like, checked.outputs({}))))
            made[name] = frozenset(ran), numbers
    return made


@cache
def cases():
    """The catalogue's cases by name: of operations, of each kind of layer the first, and a few models."""
    seen, chosen = Counter(), {}
    for case in catalogue():
        seen[kind_of(case.name)] += case.group == "layer"
        if case.name.endswith(MODELS) if case.group == "model" else seen[kind_of(case.name)] <= LAYERS:
            chosen[case.name] = case
    return chosen


def kind_of(name):
    """The operation or class of a case."""
    return name.partition(":")[0]


def checked_of(name, backend):
    """The target of a case at its inputs."""
    case = cases()[name]
    return Subject(case.build(backend), case.inputs, dict(case.options), backend.device)


def numbers_of(name, backend):
    """The numbers that a case's forward or a scene makes, by name."""
    if name in SCENES:
        return SCENES[name](backend)
    outputs = checked_of(name, backend).outputs({})
    return {"y" if len(outputs) == 1 else f"output {i}": np.array(y) for i, y in enumerate(outputs)}


def by_gradient(name, backend):
    """The first tensor that the gradient check does not call right, along random directions, which is quick."""
    if name in SCENES:
        return None
    try:
        said = first_of(replace(cases()[name], along_directions=True).check(backend, explain=False))
    except Exception as error:
        said = crash(error)
    return said and Finding(f"gradient of {kind_of(name)}", f"{name}: {said}")


def by_invariant(name, backend):
    """The first invariant that does not hold."""
    if name in SCENES:
        return None
    case = cases()[name]
    try:
        report = certify(case.build(backend), *case.inputs, device=backend.device, **case.options)
    except Exception:
        return None  # the gradient check has said so
    claim = next((claim for claim in report.claims if claim.fails), None)
    return claim and Finding(f"invariant: {claim.name}", f"{name}: {claim.reason}")


def by_numbers(name, backend):
    """The first number that is another one than without the bug."""
    try:
        numbers = numbers_of(name, backend)
        said = next(filter(None, (differing(what, numbers[what], x) for what, x in prepared()[name][1].items())), "")
    except Exception as error:
        said = crash(error)
    if name in SCENES:
        return said and Finding(name, said)
    return said and Finding(f"values of {kind_of(name)}", f"{name}: {said}")


#: The ways of looking, in the order in which they are asked.
WAYS = by_gradient, by_invariant, by_numbers


def differing(what, got, right):
    """A sentence about the first number that differs; "" if none does. NaN differs from all but NaN."""
    a, b = np.asarray(got), np.asarray(right)
    if a.shape != b.shape:
        return f"{what} has shape {a.shape}, without the bug {b.shape}"
    wrong = np.argwhere(~((np.abs(a - b) <= ROUNDING * (1 + np.abs(b))) | (a == b) | (a != a) & (b != b)))
    if not len(wrong):
        return ""
    place = tuple(map(int, wrong[0]))
    at = f" at {list(place)}" if place else ""
    here, there = in_digits(a[place], b[place])
    return f"{what}{at} is {here}, without the bug {there}"


def crash(error):
    """A sentence about an exception that the bug raises."""
    return f"it crashes with {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def explained(bug, name, found):
    """The same finding, element by element where the case is small, with what the check says of the cause.

    The changed pair of an operation is given to the check as a user's, so that nothing is changed in npformer.
    """
    case, changed = cases()[name], {function.__name__: function for function in changed_functions(bug.edits)}
    names = [f"{kind_of(name)}_{way}" for way in ("forward", "backward")]
    try:
        if changed.keys() & set(names):
            pair = tuple(changed.get(each, getattr(functional, each, None)) for each in names)
            report = gradcheck(pair, *case.inputs, allow_length_one=True, **case.options)
        else:
            with patched(bug.edits) as backend:
                report = case.check(backend)
    except Exception:
        return found  # it crashes, which is what was found
    wrong = [row for row in report.rows if not row.ok]
    causes = [row.diagnosis for row in wrong if row.diagnosis and row.cause != UNKNOWN.cause]
    of = ", ".join(row.tensor for row in wrong if row.diagnosis in causes[:1])
    diagnosis = f"{of}: {causes[0]}" if causes else ""
    return found._replace(said=f"{name}: {first_of(report)}" if wrong else found.said, diagnosis=diagnosis)
