"""All that the checkers are given: right and wrong pairs of four lists."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import npformer as npf
from benchmarks.checkers.problem import of_kernel, of_subject, upstream
from benchmarks.foreign.listed import RIGHT as FOREIGN
from benchmarks.foreign.listed import wrong_pairs
from benchmarks.foreign.score import judged
from benchmarks.precision.blind import BLIND
from benchmarks.precision.kernel import BELOW
from benchmarks.precision.listed import KERNELS
from benchmarks.regimes.listed import BUGS as REGIME_BUGS
from npformer.check import catalogue
from npformer.check.report import WRONG
from npformer.check.subject import subject
from npformer.check.symmetric import with_structure
from npformer.lab.museum.bugs import BUGS as MUSEUM_BUGS
from npformer.lab.museum.patch import patched

LISTS = (
    "foreign", "museum", "few digits", "regimes", "regimes in few digits", "where it fails",
    "where it fails in few digits",
)  # fmt: skip
#: The inputs at which the bugs of the regimes' list fail: those that npformer's search found, see failing.py.
FAILING = Path(__file__).with_name("failing.json")


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
    kinds: frozenset[str] = frozenset()

    def cause_is(self, report):
        """Whether the cause that a report names is right, false or unknown; "" where the true one is not listed."""
        causes = [row.cause for row in report.rows if row.verdict == WRONG]
        return judged(next((cause for cause in causes if cause not in ("", "unknown")), ""), self.kinds)


@cache
def items():
    """Every Item, in the order of the lists."""
    return [*foreign_items(), *museum_items(), *precision_items(), *regime_items(), *failing_items()]


def foreign_items():
    """The foreign list: pairs in NumPy as other people write them."""
    for pair in FOREIGN:
        yield of_foreign(pair, pair, True)
    for wrong in wrong_pairs():
        yield of_foreign(wrong, wrong.pair, False)


def of_foreign(one, pair, is_right):
    """The Item of a foreign pair, right or wrong."""

    def made(backward):
        target = subject((pair.forward, backward), pair.inputs, pair.options, None)
        return with_structure(target, pair.check.get("structure"))

    def problems():
        yield of_subject(made(one.backward), made(pair.backward))

    def reports(**how):
        yield npf.gradcheck((pair.forward, one.backward), *pair.inputs, **pair.check, **pair.options, **how)

    return Item("foreign", one.name, is_right, problems, reports, frozenset() if is_right else one.kinds)


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
            made = subject(case.build(backend), case.inputs, dict(case.options), backend.device)
            right = made.gradients(tuple(upstream(made.outputs({}))))
            with patched(edits):
                yield replace(of_subject(made), truth=lambda arrays, dys, right=right: list(right.values()))

    def reports(**how):
        how |= {"device": backend.device, "allow_length_one": True}
        with patched(edits):
            for case in cases:
                yield npf.gradcheck(case.build(backend), *case.inputs, **case.options, **how)

    return Item("museum", name, not edits, problems, reports)


def precision_items():
    """The lists of kernels in few digits, at their first seed, without mistakes that their precision hides."""
    for kernel in (*KERNELS, *BLIND):
        if kernel.verdict == BELOW:
            continue

        def problems(kernel=kernel):
            options = {key: x for key, x in kernel.options.items() if key not in OF_THE_CHECK}
            yield of_kernel(kernel.target, kernel.reference, kernel.precision, kernel.inputs(0), options)

        def reports(kernel=kernel, **how):
            yield npf.gradcheck(
                kernel.target, *kernel.inputs(0), reference=kernel.reference, precision=kernel.precision,
                accumulate=kernel.accumulate, **kernel.options, **how,
            )  # fmt: skip

        yield Item("few digits", f"{kernel.name} ({kernel.precision})", kernel.verdict == "right", problems, reports)


#: Options that gradcheck takes for itself, and does not hand to forward.
OF_THE_CHECK = {"constant", "names", "structure", "device"}


def regime_items():
    """Bugs after public reports that show in a regime alone, at their ordinary inputs, and their right twins."""
    for bug in REGIME_BUGS:
        for is_right in (True, False):
            yield of_bug("regimes", bug, is_right, regimes="all")


def failing_items():
    """The same bugs and their twins at inputs where the bug shows: nobody has to look for a regime."""
    found = json.loads(FAILING.read_text(encoding="utf-8")) if FAILING.exists() else {}
    for bug in REGIME_BUGS:
        if bug.name in found:
            inputs = tuple(np.array(x["numbers"], x["dtype"]).reshape(x["shape"]) for x in found[bug.name]["inputs"])
            for is_right in (True, False):
                yield of_bug("where it fails", replace(bug, inputs=inputs), is_right, allow_length_one=True)


def of_bug(name, bug, is_right, **always):
    """The Item of such a bug or its twin, in the list of this name; always: options of gradcheck."""
    backward = bug.backward if is_right else bug.wrong
    options = {key: x for key, x in bug.options.items() if key not in OF_THE_CHECK}

    def problems():
        if bug.reference is not None:
            yield of_kernel((bug.forward, backward), bug.reference, bug.precision, bug.inputs, options)
            return
        made, right = (subject((bug.forward, one), bug.inputs, options, None) for one in (backward, bug.backward))
        yield of_subject(made, right)

    def reports(**how):
        yield bug.judged(backward, **always, **how)

    return Item(name if bug.reference is None else f"{name} in few digits", bug.name, is_right, problems, reports)
