"""All that the checkers are given: right and wrong pairs of the corpus, and the museum's bugs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import npformer as npf
from benchmarks.checkers.problem import of_kernel, of_subject, upstream
from benchmarks.corpus.asked import checked, drawn
from benchmarks.corpus.families import cause_of, judged
from benchmarks.corpus.pairs import as_tuple, loaded, pairs
from npformer.check import catalogue
from npformer.check.subject import Subject
from npformer.lab.museum.bugs import BUGS as MUSEUM_BUGS
from npformer.lab.museum.patch import patched

LISTS = (
    "foreign", "museum", "few digits", "regimes", "regimes in few digits", "where it fails",
    "where it fails in few digits",
)  # fmt: skip
#: The inputs at which the mistakes of regimes fail: those that npformer's search found, see failing.py.
FAILING = Path(__file__).parents[1] / "results" / "failing.json"
#: Options that gradcheck takes for itself, and does not hand to forward.
OF_THE_CHECK = {"constant", "names", "structure", "device"}


@dataclass(frozen=True)
class Item:
    """One right or wrong pair.

    problems(): generates the Problems to be checked, all right if is_right; else a mistake shows in some of them.
    reports(**how): generates npformer's reports on the same; how: options of gradcheck. A bug of the museum is in force
    while such a generator is open. kinds: what a person would name as the cause, where that is listed.
    """

    list: str
    name: str
    is_right: bool
    problems: Callable[[], Any]
    reports: Callable[..., Any]
    kinds: tuple[str, ...] = ()

    def cause_is(self, report):
        """Whether the cause that a report names is right, false or unknown; "" where the true one is not listed."""
        return judged(cause_of(report), self.kinds)


@cache
def items():
    """Every Item, in the order of the lists."""
    return [*of_list("foreign", "foreign"), *museum_items(), *of_list("few digits", "precision"),
            *of_list("regimes", "regimes", regimes="all"), *failing_items()]  # fmt: skip


def of_list(name, which, **always):
    """The Items of a list of the corpus, without mistakes that their precision hides."""
    for pair in pairs(which):
        for mistake in (None, *pair.mistakes):
            if pair.deserved(mistake) != "below":
                yield of_pair(name, pair, mistake, **always)


def failing_items():
    """The mistakes of regimes and their right twins at inputs where they show: nobody has to look for a regime."""
    found = failing_inputs()
    for pair in pairs("regimes"):
        for mistake in pair.mistakes:
            for numbers in filter(None, [found.get(label(pair, mistake))]):
                inputs = tuple(np.array(x["numbers"], x["dtype"]).reshape(x["shape"]) for x in numbers)
                for each in (None, mistake):
                    yield of_pair("where it fails", pair, each, inputs=inputs, allow_length_one=True)


def failing_inputs():
    """Name of a mistake -> the inputs at which it shows, each with its dtype, shape and numbers."""
    return {row["name"]: row["inputs"] for row in json.loads(FAILING.read_text(encoding="utf-8"))["results"]}


def label(pair, mistake):
    """The name of a pair, or of a mistake in it."""
    return f"{pair.name}: {mistake.title}" if mistake else pair.name


def of_pair(name, pair, mistake, inputs=None, **always):
    """The Item of a pair or a mistake in it, in the list of this name; always: options of gradcheck."""

    def given(evaluate):
        if inputs is not None:
            return inputs
        return drawn(evaluate(pair.draw), 0, pair.precision) if pair.draw else as_tuple(evaluate(pair.inputs))

    def problems():
        with loaded(pair, mistake) as one, loaded(pair) as right:
            every = right(pair.options) or {}
            options = {key: x for key, x in every.items() if key not in OF_THE_CHECK}
            if pair.reference:
                yield of_kernel(one(pair.target), right(pair.reference), pair.precision, given(right), options)
            else:
                yield of_subject(*(
                    Subject(each(pair.target), given(right), options, structure=every.get("structure"))
                    for each in (one, right)
                ))  # fmt: skip

    def reports(**how):
        with loaded(pair) as evaluate:
            yield checked(pair, mistake, inputs=given(evaluate), **always, **how)

    name += " in few digits" * (bool(pair.reference) and name != "few digits")
    is_right = mistake is None and pair.deserves == "right"
    return Item(name, label(pair, mistake), is_right, problems, reports, mistake.kinds if mistake else ())


def museum_items():
    """The museum's bugs that change nothing but backwards, in npformer's own operations and layers."""
    cases = {}
    for case in catalogue():
        if case.group != "model":
            cases.setdefault(case.name.partition(":")[0], []).append(case)
    chosen = [bug for bug in MUSEUM_BUGS if not bug.test and all(t.endswith("backward") for t in bug.targets)]
    kinds = {bug.id: sorted(map(kind_of, bug.targets)) for bug in chosen}
    for kind in sorted({kind for several in kinds.values() for kind in several}):
        yield of_cases(kind, cases[kind], ())
    for bug in chosen:
        yield of_cases(bug.id, [case for kind in kinds[bug.id] for case in cases[kind]], bug.edits)


def kind_of(target):
    """The operation or the class of layers whose backward this target is."""
    place = target.rpartition(":")[2]
    return place.partition(".")[0] if "." in place else place.removesuffix("_backward")


def of_cases(name, cases, edits):
    """The Item of these cases with these edits in force."""

    backend = npf.get_backend("numpy", dtype="float64", kernels="plain", threads=1)

    def problems():
        for case in cases:
            made = Subject(case.build(backend), case.inputs, dict(case.options), backend.device)
            right = made.gradients(tuple(upstream(made.outputs({}))))
            with patched(edits):
                yield replace(of_subject(made), truth=lambda arrays, dys, right=right: list(right.values()))

    def reports(**how):
        how |= {"device": backend.device, "allow_length_one": True}
        with patched(edits):
            for case in cases:
                yield npf.gradcheck(case.build(backend), *case.inputs, **case.options, **how)

    return Item("museum", name, not edits, problems, reports)
