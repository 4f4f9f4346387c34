"""Judges kernels in low precision against a reference: a pair that computes the same in float64, or a forward alone.

The kernel gets numbers of its own precision, and the reference the same numbers. ``nearby.py`` has the rule by which
what rounding explains is parted from a mistake, ``rounding.py`` the arithmetic that says what rounding explains. The
reference is checked first, in float64: a kink, a tie or a point without a value is one in any precision, and a
reference that is wrong judges nothing. In float64 a reference may declare another gradient than the derivative of its
forward, as a straight-through estimator has.

A forward alone is differentiated by the complex step, a forward for each entry; of a large input, entries are sampled.
Without a reference, the kernel's own forward is differenced with steps that suit its precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check import behaviour
from npformer.check.inputs import is_float
from npformer.check.look import CheckOptions, expect_fitting, not_numbers, upstreams_of, without_verdict
from npformer.check.lost_digits import LOST
from npformer.check.measures import largest, max_abs, rms, scale_of, terms, worst_at
from npformer.check.one_point import at_one_point
from npformer.check.oracles import Oracle
from npformer.check.precision.formats import Format, format_named, format_of, rounded
from npformer.check.precision.nearby import (
    DRAWS,
    ONCE,
    POINTS,
    Coefficients,
    Compared,
    Errors,
    errors_of,
    moved,
    row_of,
)
from npformer.check.precision.reference import Reference
from npformer.check.precision.rounding import Level, Rounding
from npformer.check.repeats import Repeats
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG, Report, Row
from npformer.check.subject import Called, Subject, Upstream, subject
from npformer.check.sweep import kink
from npformer.check.symmetric import with_structure
from npformer.check.vacuity import not_finite
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.typing import HostArrays

#: Of an output's largest change as inputs move by a rounding: an output farther off is another function's.
ANOTHER = 8.0
#: Of u and a tensor's largest entry: what a kernel may lose where a reference shows no backward in NumPy.
UNSEEN = 4.0
#: Of u: a reference that loses digits in float64 still says what a kernel of so few should return.
LEFT = 1 / 8


class _Kernel(NamedTuple):
    """The kernel at the point of the check, its inputs, and the precision of its numbers and of its sums."""

    checked: Called
    inputs: list[Any]
    precision: Format
    inside: Format

    @classmethod
    def of(cls, target: Any, inputs: Sequence[Any], how: CheckOptions) -> _Kernel:
        known = format_of(inputs, how.precision)
        sums = format_named("accumulate", how.accumulate or ("float64" if known.name == "float64" else "float32"))
        placed = [rounded(x, known) if is_float(x) and isinstance(x, np.ndarray) else x for x in inputs]
        dtype = known.name if known.name in ("float64", "float16") else "float32"
        checked = subject(target, placed, how.options, how.device, how.names, dtype)
        return cls(with_structure(checked, how.structure), placed, known, sums)

    @property
    def as_computed(self) -> Level:
        """One rounding of what the kernel computes inside."""
        u = min(self.inside.u, 2.0**-24) if self.precision.name != "float64" else self.precision.u
        product = self.precision.product if self.precision.name == "tf32" else u
        return Level(u, product, partial=self.inside.u if self.inside.u > u else 0.0)

    def as_stored(self, is_forward: bool) -> Level:
        """One rounding of what it stores, at every result of its backward, and at every constant."""
        u, inside = self.precision.u, self.as_computed
        if is_forward:
            return inside._replace(constant=u)
        return inside._replace(
            entry=u, product=max(u, inside.product), together=u, constant=u, tiny=self.precision.least / 2
        )

    def moved(self, seed: Sequence[int]) -> HostArrays:
        """The tensors at a point nearby, in numbers of the kernel's precision."""
        rng = np.random.default_rng(seed)
        there = {name: moved(x, rng, self.precision.u) for name, x in self.checked.tensors.items()}
        return {name: rounded(x, self.precision) for name, x in self.checked.symmetric(there).items()}


def in_low_precision(target: Any, inputs: Sequence[Any], how: CheckOptions) -> Report:
    """A Report of target's gradients in its own precision; see the head of this file.

    Raises ConfigError if there is neither a precision nor an input that has one, or if shapes of outputs differ.
    """
    kernel = _Kernel.of(target, inputs, how)
    (drawn,) = upstreams_of(kernel.checked, how, 1)
    upstream = tuple(rounded(r, kernel.precision) for r in drawn)
    claimed = {name: np.asarray(g, dtype=np.float64) for name, g in kernel.checked.gradients(upstream).items()}
    expect_fitting(kernel.checked, claimed)
    repeats = Repeats(kernel.checked, upstream, claimed, max(behaviour.ALIKE, 64 * kernel.precision.u))
    problems: list[str] = []
    if not how.in_regime:  # what the code owes is asked once
        problems = behaviour.problems(kernel.checked, [upstream], claimed, kernel.precision.u, repeats)
    if how.reference is None:
        rows = by_own_forward(kernel.checked, upstream, claimed, kernel.precision)
        notes = (*behaviour.notes(kernel.checked), NO_REFERENCE.format(kernel.precision.name))
        report = Report("", rows, tuple(problems), notes)
    else:
        report = _Comparison(kernel, how, upstream, claimed).report(problems)
    if not report.problems and not_finite(kernel.checked) is None:
        report = replace(report, problems=tuple(not_numbers(claimed)))
    return without_verdict(report, repeats)


class _Comparison:
    """A kernel's gradients beside its reference's."""

    def __init__(self, kernel: _Kernel, how: CheckOptions, upstream: Upstream, claimed: HostArrays) -> None:
        self._kernel, self._how, self._upstream, self._claimed = kernel, how, upstream, claimed

        def make(target: Any, dtype: str = "float64") -> Called:
            called = subject(target, kernel.inputs, how.options, how.device, kernel.checked.input_names, dtype)
            return with_structure(called, how.structure)

        self._reference = Reference(how.reference, make)
        shapes = [[y.shape for y in called.outputs({})] for called in (self._kernel.checked, self._reference.subject)]
        if shapes[0] != shapes[1]:
            raise ConfigError(f"reference: expected outputs of the kernel's shapes, {shapes[0]}, got {shapes[1]}")
        self._notes: list[str] = []

    def report(self, problems: list[str]) -> Report:
        """The rows, with the problems given and those of the reference and of the outputs."""
        at, reference = self._kernel.checked.tensors, self._reference
        sampled = reference.look(self._claimed, self._upstream, self._how.seed)
        doubts, more = self._reference_in_float64()
        self._notes += [sampled] if sampled else []
        exact = reference.gradients(self._upstream, at)
        terms = reference.terms(self._upstream, at, exact)
        of = {tensor: {text: lost[tensor] for text, lost in terms.items()} for tensor in exact}
        others = {
            tensor: Coefficients.of(n, of[tensor], len(reference.places[tensor].entries), self._kernel.precision.u)
            for tensor, n in exact.items()
        }
        errors = [self._errors(0, exact, others)]
        if any(np.any(one.stays) for one in errors[0].values()):
            errors.append(self._errors(1, exact, others))
        most = largest(exact.values())
        rows = [
            self._carried(tensor, *doubts[tensor])
            if tensor in doubts
            else row_of(
                Compared(
                    tensor, a, reference.places[tensor], exact[tensor], of[tensor], others[tensor],
                    [one[tensor] for one in errors],
                ),
                self._kernel.precision, most,
            )
            for tensor, a in self._claimed.items()
        ]  # fmt: skip
        notes = (*behaviour.notes(self._kernel.checked), *dict.fromkeys(self._notes))
        return Report("", tuple(rows), (*problems, *more, *self._another_function()), notes)

    def _reference_in_float64(self) -> tuple[dict[str, tuple[str, str]], list[str]]:
        """(verdict, note) of each tensor that the reference itself cannot be right about, and its problems."""
        reference, how = self._reference, replace(self._how, explain=True, why=False)
        if reference.has_backward:
            how = replace(how, names=self._kernel.checked.input_names, allow_length_one=True)
            report = at_one_point(reference.target, self._kernel.inputs, how)
            rows, problems = list(report.rows), [f"reference: {problem}" for problem in report.problems]
        elif (nowhere := not_finite(reference.subject)) is not None:
            rows, problems = list(nowhere.rows), [f"reference: {problem}" for problem in nowhere.problems]
        else:
            rows, problems = self._kinks(), []
        rows = [row for row in rows if row.note != LOST or row.scaled_error > LEFT * self._kernel.precision.u]
        wrong = [row.tensor for row in rows if row.verdict == WRONG]
        if wrong and self._kernel.precision.name == "float64":
            self._notes.append(
                f"a declared gradient: the reference's backward is not the derivative of its forward, for "
                f"{', '.join(wrong)}; the kernel is compared with the declared one"
            )
            rows = [row for row in rows if row.verdict != WRONG]
        elif wrong:
            problems.append(
                f"reference: its own gradient of {', '.join(wrong)} is not the derivative of its forward in float64; "
                "check it first: npf.gradcheck(reference, *inputs)"
            )
        return {row.tensor: (row.verdict, row.note) for row in rows if not row.ok}, problems

    def _kinks(self) -> list[Row]:
        """Rows of the reference's forward: KINK HERE where the slopes to the left and to the right differ."""
        reference, rows = self._reference, []
        for tensor, places in reference.places.items():
            for index, direction in places.along():
                note = kink(reference.subject, tensor, direction, self._upstream)
                if note:
                    rows.append(Row(tensor, places.shape, direction.size, 0.0, 0.0, index, 0.0, 0.0, 1.0, KINK, note))
                    break
        return rows

    def _errors(self, turn: int, exact: HostArrays, others: Mapping[str, Coefficients]) -> dict[str, Errors]:
        """The errors of every tensor at a set of points; turn: which set, and which draws."""
        kernel, reference, seed = self._kernel, self._reference, [self._how.seed, 9, turn]
        at, u = kernel.checked.tensors, kernel.precision.u
        points: list[HostArrays] = []
        with reference.progress(POINTS + 3 * DRAWS):
            for k in range(POINTS):
                is_here = k == turn == 0
                there = at if is_here else kernel.moved([*seed, k])
                r = self._upstream if is_here else tuple(
                    rounded(moved(x, np.random.default_rng([*seed, k, i]), u), kernel.precision)
                    for i, x in enumerate(self._upstream)
                )  # fmt: skip
                n, a = reference.gradients(r, there), kernel.checked.gradients(r, there)
                e = {tensor: reference.places[tensor].of(a[tensor]) - n[tensor] for tensor in n}
                if is_here or all(np.all(np.isfinite(x)) for x in e.values()):  # a neighbour may overflow
                    points.append(e)
            draws = self._draws(seed, exact)
        return {
            tensor: errors_of(
                np.reshape([e[tensor] for e in points], (len(points), len(exact[tensor]))),
                [draw[tensor] for draw in draws],
                places.sums_of_squares(kernel.precision.stored(self._claimed[tensor])) ** 0.5,
                ONCE * u * places.sizes(self._claimed[tensor]), others[tensor],
            )
            for tensor, places in reference.places.items()
        }  # fmt: skip

    def _draws(self, seed: list[int], exact: HostArrays) -> list[HostArrays]:
        """Changes of the reference's gradients as computed inside, as stored, and if all is stored: each (draws, P)."""
        kernel, reference, at = self._kernel, self._reference, self._kernel.checked.tensors
        rounded_all = kernel.as_stored(False)
        pairs = [
            (kernel.as_computed,) * 2,
            (kernel.as_stored(True), rounded_all),
            (rounded_all._replace(together=0),) * 2,
        ]
        changes = []
        for which, (forward, backward) in enumerate(pairs):
            runs = [
                reference.gradients(self._upstream, at, Rounding([*seed, 20, which, i], forward, backward))
                for i in range(DRAWS)
            ]
            changes.append({tensor: np.array([run[tensor] - n for run in runs]) for tensor, n in exact.items()})
        if not reference.is_seen:
            self._notes.append(
                "the reference computes outside of NumPy, so its operations could not be rounded one by one: what it "
                "errs in float32 stands for the floor; a pair in NumPy is a better reference"
            )
            errors = [
                reference.in_float32(self._upstream, at if not i else kernel.moved([*seed, 30, i]))
                for i in range(DRAWS)
            ]
        for which, (_, level) in enumerate(pairs):
            u = max(level.entry, level.product)
            if not reference.is_seen:
                changes[which] = {tensor: u / 2.0**-24 * np.array([e[tensor] for e in errors]) for tensor in exact}
            if not reference.is_elementary:  # a subtraction inside its backward is not seen
                rng = np.random.default_rng([*seed, 31, which])
                for tensor, n in exact.items():
                    most = UNSEEN * u * max_abs(n[: len(reference.places[tensor].entries)])
                    changes[which][tensor] = changes[which][tensor] + most * rng.normal(
                        size=changes[which][tensor].shape
                    )
        return changes

    def _another_function(self) -> list[str]:
        """Problems of outputs that differ from the reference's: its gradients then belong to another function."""
        kernel, truth, u = self._kernel, self._reference.subject, self._kernel.precision.u
        rng = np.random.default_rng([self._how.seed, 7])
        moves = [
            truth.outputs({name: x * (1 + 2 * u * rng.uniform(-1, 1, x.shape)) for name, x in truth.tensors.items()})
            for _ in range(DRAWS)
        ]
        for i, (y, expected) in enumerate(zip(kernel.checked.outputs({}), truth.outputs({}), strict=True)):
            if not np.all(np.isfinite(y)) and np.all(np.isfinite(expected)):
                return [
                    f"output {i} overflows: {int(np.sum(~np.isfinite(y)))} of {y.size} entries are not finite in "
                    f"{kernel.precision.name}, all are in float64"
                ]
            off, most = np.abs(np.asarray(y, dtype=np.float64) - expected), max_abs(expected)
            spread = np.max([np.abs(move[i] - expected) for move in moves], axis=0)
            rounding = max(u, kernel.precision.product if kernel.precision.name == "tf32" else 0.0, kernel.inside.u)
            if np.any(off > ANOTHER * spread + 4 * rounding * np.sqrt(y.size + 1) * most):
                return [
                    f"output {i} is not the reference's: off by {float(np.max(off)) / (most or 1):.1e} of the largest, "
                    f"more than {kernel.precision.name} explains"
                ]
        return []

    def _carried(self, tensor: str, verdict: str, note: str) -> Row:
        """The row of a tensor about which the reference has the last word."""
        a = self._claimed[tensor]
        shown = UNCLEAR if verdict == WRONG else verdict
        why = "the reference's own gradient is wrong" if verdict == WRONG else f"by the reference in float64: {note}"
        place = worst_at(np.abs(a))
        return Row(tensor, a.shape, a.size, np.nan, np.nan, place, float(a[place]), np.nan, 1.0, shown, why)


#: Of an entry, or of a tensor's largest one: a wider limit decides nothing.
TOO_WIDE = 0.2
LAMBDA = 4.0
NO_REFERENCE = (
    "no reference: differences of the {} forward itself decide; reference=(a float64 pair or forward) tells more"
)


def by_own_forward(checked: Subject, upstream: Upstream, claimed: HostArrays, precision: Format) -> tuple[Row, ...]:
    """The rows of a kernel without a reference: differences of its own forward decide, where they are fine enough.

    An entry is right if |a − n| ≤ 8e + λ·u·√N·A + φ: e the differences' error estimate, A the entry's reach
    (``verdict.py``), N the number of terms of L, whose roundings add like a random walk, λ = 4, and φ = λ·u·max(max|n|,
    rms(r·y)·√N / rms x). Source: Higham & Mary 2019, SIAM J. Sci. Comput. 41, theorem 3.1.
    """
    outputs = checked.outputs({})
    oracle = Oracle(checked, [upstream], use_complex=False)
    oracle.rounding = max(oracle.rounding, precision.u)  # bfloat16 numbers come as float32: steps would be too small
    evidence = {tensor: oracle.every_element(tensor) for tensor in claimed}
    most, count = largest(slopes.truth for slopes in evidence.values()), sum(y.size for y in outputs)
    rows = []
    for tensor, slopes in evidence.items():
        a, n = claimed[tensor], slopes.truth[0]
        typical = rms(checked.tensors[tensor]) or 1.0
        floor = LAMBDA * precision.u * max(max_abs(n), terms(upstream, outputs) / count**0.5 / typical)
        limit = LAMBDA * precision.u * np.sqrt(count) * slopes.reach[0] + floor + 8 * slopes.central_error[0]
        scale, off = scale_of(n, most), np.abs(a - n)
        share = np.where(off == 0, 0.0, off / np.where(limit == 0, 1.0, limit))
        place = worst_at(share)
        told = float(np.sum(np.square(n[limit <= TOO_WIDE * np.abs(n)])))  # by entries at which zeros would be WRONG
        is_told = told >= 0.5 * float(np.sum(np.square(n))) or max_abs(limit) <= TOO_WIDE * scale
        verdict = WRONG if not share[place] <= 1 else RIGHT if is_told else UNCLEAR
        note = f"in {precision.name}, {percent(float(share[place]), 0)} of what that allows"
        if verdict == UNCLEAR:
            note = (
                f"{precision.name} allows {float(np.median(limit)) / scale:.0e} of the largest entry here; give "
                "reference=, a float64 pair or forward"
            )
        if not np.all(np.isfinite(a)):
            note = f"{int(np.sum(~np.isfinite(a)))} of {a.size} entries are not finite in {precision.name}"
        error = float(off[place] / scale)
        rows.append(
            Row(tensor, n.shape, n.size, error, error, place, float(a[place]), float(n[place]), scale, verdict, note)
        )
    return tuple(rows)
