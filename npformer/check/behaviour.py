"""What gradcheck says beside its rows: *problems*, a breach of a property each (``properties.py``), and *notes*.

Notes name branches that were never entered, and inputs that are passed on unchecked: the check does not cover them.

``Repeats`` are runs from fresh caches, with the same upstream gradient. Atomic additions may run in another order each
time. Two orders of a sum of n terms differ by at most 2(n − 1)·u of the sum of their sizes (Higham 2002, "Accuracy and
Stability of Numerical Algorithms", 4.2). So a difference up to the judge's tolerance is rounding: 1e-10 is that bound
for 450,000 terms. More is a fault, and the gradient has no verdict.

A fault in a share p of runs is seen in n runs with probability 1 − (1 − p)ⁿ. Every check makes two, and one for each
PLACES_FOR_A_RUN elements or directions, which cost the witnesses three forwards each: a twentieth of a check, if a
backward costs two. MOST_RUNS are made on request, or if such a fault may be behind a problem.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from npformer.check.checkable import tree_of, unwrapped
from npformer.check.measures import NEGLIGIBLE, U, apart, largest, max_abs, scale_of
from npformer.check.properties import (
    Asked,
    Equation,
    Property,
    Violation,
    any_layout,
    cache_again,
    deterministic,
    linear,
    pure,
)
from npformer.check.subject import Subject, Upstream
from npformer.io.percent import percent
from npformer.io.seconds import now, since
from npformer.typing import Tensors

#: Of the largest entry: two backward passes that differ by more count as different.
ALIKE = 1e-9
#: Of the largest entry: what parts of a dy may differ by where their products and sums have few digits.
GROSS = 0.1
NOT_THEIRS = (*(str(Path(at).parents[1]) for at in (__file__, np.__file__)), str(Path(os.__file__).parent), "<frozen")


def problems(
    checked: Subject, upstreams: Sequence[Upstream], gradients: Tensors, u: float, repeats: Repeats | None = None
) -> list[str]:
    """Problems other than the gradient; gradients, and repeats, to which runs are added: for upstreams[0]."""
    alike = max(ALIKE, 64 * u)
    repeats = repeats or Repeats(checked, upstreams[0], gradients, alike)
    asked = Asked(checked, upstreams, {**gradients}, u)

    def breaches(*properties: Property) -> Iterator[str]:
        """One after the other, since each costs runs."""
        return filter(None, (_said(one, alike, u)[0] for each in properties for one in each.asked(asked)))

    text, spread = _said(next(deterministic.asked(asked)), alike, u)
    if text:
        repeats.faulty |= gradients.keys() if spread > repeats.rounding else set()
        return [text]
    if not all(np.all(np.isfinite(gradient)) for gradient in gradients.values()):
        return []  # nothing else can be checked
    repeats.once()
    faults = list(breaches(pure))
    if faults or repeats.faulty:
        return faults + repeats.problems  # the next checks would report the same again
    for _ in range(2):  # once more if runs turn out to differ
        alike = max(alike, 8 * repeats.noise)
        faults = list(islice(breaches(cache_again, linear, any_layout), 1))
        repeats.run(MOST_RUNS if faults else 0)
        if 8 * repeats.noise <= alike:
            break
    return repeats.problems or faults


def _said(one: Equation | Violation, alike: float, u: float) -> tuple[str, float]:
    """What is said of an equation that does not hold, else ""; and how far the worst tensor is off, beside its size."""
    if isinstance(one, Violation):
        return one.note, np.inf
    every = [_sizes(gradients, alike) for gradients in (one.expected, *one.parts)]
    sizes = {name: max(size[name] for size in every) for name in one.expected}
    least = NEGLIGIBLE * max([one.floor, *sizes.values()])
    offs = {name: apart(x, one.got[name]) / (max(sizes[name], least) or 1.0) for name, x in one.expected.items()}
    worst, off = max(offs.items(), key=itemgetter(1), default=("", 0.0))
    limit = 0.0 if one.is_exact else max(alike, one.roundings * u * (u <= U))
    if one.is_sum and u > U:
        limit = GROSS  # products and sums in few digits round each part by itself
    moved = ", ".join(name for name, share in offs.items() if share)
    return one.problem.format(worst=worst, off=off, every=moved) * (off > limit), off


def _sizes(gradients: Tensors, alike: float) -> dict[str, float]:
    """The largest entry of each tensor; in low precision of all: one that cancels to 0 has the rounding of others."""
    sizes = {name: max_abs(x) if np.all(np.isfinite(x)) else 0.0 for name, x in gradients.items()}
    return sizes if alike <= ALIKE else dict.fromkeys(sizes, max(sizes.values(), default=0.0))


def notes(checked: Subject) -> list[str]:
    """Notes on what the check does not cover."""
    passed_on = checked.inputs.unchecked
    lines = [f"passed on unchecked: {', '.join(passed_on)}"] if passed_on else []
    others = {i: f"is {kind}" for i, kind in enumerate(checked.kinds) if i not in checked.kept}
    others |= {i: f"wants no gradient, {why}" for i, why in checked.silent.items()}
    lines += [f"left out: output {i} {why}" for i, why in sorted(others.items())]
    lines += [f"{np.sum(where)} entries of {name} are not finite: not judged" for name, where in checked.fixed.items()]
    lines += getattr(checked.target, "notes", [])
    branches = _not_entered(checked)
    if branches:
        lines.append(f"not entered at this point, so not checked: {', '.join(branches)}")
    return lines


def _not_entered(checked: Subject) -> list[str]:
    """Branches of a user's forward in which no line ran: "forward, line 12"."""
    function = inspect.unwrap(checked.target.forward) if checked.is_pair else None
    if not isinstance(function, FunctionType) or (function.__module__ or "").partition(".")[0] == "npformer":
        return []
    try:
        tree, first = tree_of(function)
    except (OSError, SyntaxError, TypeError, tokenize.TokenError):
        return []  # no source, or part of a line
    blocks = [
        range(block[0].lineno + first - 1, (block[-1].end_lineno or block[-1].lineno) + first)
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.For | ast.While)
        for block in (node.body, node.orelse)
        if block
    ]
    if not blocks:
        return []
    runs, file = Counter[tuple[CodeType, int]](), function.__code__.co_filename
    with counted_lines(runs):
        checked.outputs({})
    ran = {line for one, line in runs if one.co_filename == file}  # in inner functions too
    missed = sorted({lines.start for lines in blocks if ran.isdisjoint(lines)})
    return [f"{function.__name__} ({Path(file).name}, line {line})" for line in missed]


@contextmanager
def counted_lines(runs: Counter[tuple[CodeType, int]], most: int = sys.maxsize) -> Iterator[None]:
    """Within this context the lines of users' code that run are counted. An earlier tracer is restored.

    Raises TimeoutError inside that code when more than most have run.
    """
    left = most

    def of_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            runs[frame.f_code, frame.f_lineno] += 1
            left -= 1
            if left < 0:
                raise TimeoutError(f"expected at most {most} lines to run")
        return of_line

    def of_call(frame: FrameType, event: str, arg: Any) -> Any:
        return None if frame.f_code.co_filename.startswith(NOT_THEIRS) else of_line

    before = sys.gettrace()
    sys.settrace(of_call)
    try:
        yield
    finally:
        sys.settrace(before)


MOST_RUNS, MOST_SECONDS, PLACES_FOR_A_RUN = 150, 2.0, 16
CONFIRMING = 10  # runs that confirm a wrong gradient: all have the same fault, of a share p of runs, with p¹⁰


class Repeats:
    """Runs of a backward, compared with the first. noise: the largest difference. faulty: tensors without a verdict."""

    def __init__(self, checked: Subject, upstream: Upstream, gradients: Tensors, rounding: float) -> None:
        self._checked, self._upstream, self._gradients, self.rounding = checked, upstream, gradients, rounding
        finite = {name: g[np.isfinite(g)] for name, g in gradients.items()}
        self._sizes = {name: scale_of(g, largest(finite.values())) for name, g in finite.items()}
        self.runs, self.noise, self.worst = 1, 0.0, ""
        self.faulty: set[str] = set()

    def once(self) -> None:
        """Run once more; one run in eight finds other numbers in memory that was never written."""
        vars(self._checked)["litter"] = self.runs + 0.5 if self.runs % 8 == 1 else None
        again = self._checked.gradients(self._upstream)
        vars(self._checked)["litter"] = None
        self.runs += 1
        for name, first in self._gradients.items():
            if off := apart(first, again[name]):
                off /= self._sizes[name]
                self.noise, self.worst = max((self.noise, self.worst), (off, name))
                self.faulty |= {name} if off > self.rounding else set()

    def run(self, runs: int = MOST_RUNS, seconds: float = MOST_SECONDS) -> None:
        """Run the backward until there were so many runs, a fault is seen, or so many seconds have passed."""
        began = now()
        while self.runs < runs and not self.faulty and since(began) < seconds:
            self.once()

    @property
    def problems(self) -> list[str]:
        """What is said of a fault; empty if none was seen."""
        hint = (
            f"(seen in run {self.runs}); look for a lost update, memory that is never written, or what outlives a call"
        )
        for each in map(unwrapped, (self._checked.target.forward, self._checked.target.backward)):
            for default in getattr(each, "__defaults__", None) or ():
                is_shared = isinstance(default, list | dict | set)
                hint += f"; a default of {each.__name__} is one {type(default).__name__} for all calls" * is_shared
        is_seen = self.faulty and self.noise > self.rounding
        return [f"backward is not deterministic: {self._apart()} {hint}"] if is_seen else []

    def notes(self, is_asked: bool) -> list[str]:
        """What is said of rounding; and, if runs were asked for, of the chance that a fault had to be seen."""
        chance = f"would have been seen with {percent(1 - 0.98**self.runs, 0)}"
        agreement = f"{self.runs} runs of backward agree; a fault in 2 % of runs {chance}"
        rounding = f"backward: {self._apart()}, as sums in another order do"
        return [] if self.faulty else [rounding] * bool(self.noise) + [agreement] * is_asked

    def _apart(self) -> str:
        return f"two runs from fresh caches differ by {self.noise:.1e} of the largest entry of {self.worst}"
