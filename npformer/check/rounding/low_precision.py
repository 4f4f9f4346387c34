"""Judges kernels in low precision against a reference: a pair that computes the same in float64, or a forward alone.

The kernel gets numbers of its own precision, and the reference the same numbers. The reference is checked first, in
float64: a kink, a tie or a point without a value is one in any precision, and a reference that is wrong judges nothing.
In float64 a reference may declare another gradient than the derivative of its forward, as a straight-through estimator
has. A forward alone is differentiated by the complex step, a forward for each entry; of a large input, entries are
sampled. Without a reference, the kernel's own forward is differenced with steps that suit its precision.

At points nearby rounding scatters, and a mistake stays. A kernel's gradient a and the reference's n, which is exact,
are compared at K points near the user's, each of numbers that the kernel's precision can hold. At every place, an
entry, a sum over an axis, or a coefficient of the error,

    e_k = a(x_k) − n(x_k)      m = mean e_k, what stays      s = std e_k, what scatters      z² = m²/(s²/K + F²)

    F   the floor: the root mean square of what the reference itself would err if each operation, forward and backward,
        were rounded as the kernel computes inside, and the result as the kernel stores it (``stochastic.py``)
    B   the same if a kernel stored every result of its backward, and constants anywhere, in its own precision
    S   the same if it stored every result of its forward, too

m is not rounding where z > 6: with twelve points a right entry gets there once in some 10,000 (Student's t), so it
counts only if the same place gets there again at twelve other points. What is not rounding may still be a constant that
is rounded once, which nobody calls a mistake:

    right        |m| ≤ L,  L = 1.5u·|n|          a constant and the result, rounded once each
    WRONG        |m| > 3B (and L)                 more than three independent roundings at their worst, √3·√3
    CANNOT TELL  between: imprecise, since the kernel rounds where the reference subtracts, or slightly wrong; or what
                 scatters is more than S explains, Σs² > 9·ΣS², and more than 1 % or 1,024u of the gradient

The coefficients are those of a regression of e on n, and on n and each term of the reference's own formula: small
errors of many entries add up there, and a coefficient of −1 names the term that is missing. A coefficient accuses only.

*Right* says what would have shown, by the same rule: the smallest error of the gradient as a whole, and which of the
reference's terms. An entry whose whole gradient would not have shown says nothing, and the row counts such entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check import behaviour
from npformer.check.behaviour import Repeats
from npformer.check.look import CheckOptions, expect_fitting, not_numbers, upstreams_of, without_verdict
from npformer.check.measures import NEGLIGIBLE, largest, max_abs, nearby, rms, scale_of, terms, worst_at
from npformer.check.one_point import at_one_point
from npformer.check.oracles import Oracle
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG, Report, Row
from npformer.check.rounding.float64 import DRAWS, LIMIT, LOST
from npformer.check.rounding.formats import Format, format_of, rounded, rounded_inputs, sums_in
from npformer.check.rounding.reference import Places, Reference, moved
from npformer.check.rounding.stochastic import Level, Rounding
from npformer.check.subject import Subject, Upstream
from npformer.check.sweep import kink
from npformer.check.vacuity import not_finite
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.typing import HostArray, HostArrays

POINTS = 12
#: Of u·|n|: a constant and a result that are rounded once each.
ONCE = 1.5
#: Of B and S.
WORST = 3.0
#: What shows must be smaller, of the gradient or of the largest entry of the tensor, or *right* would tell nothing.
TOO_COARSE = 0.2
#: Of the gradient, and in roundings: what scatters by more, and by WORST times what every stored result explains, is
#: imprecise. A kernel that keeps the logarithm of a sum loses some hundreds of roundings, and nobody minds.
ROUGH, ROUNDINGS = 0.01, 1024
#: A coefficient explains the error of a tensor if it leaves less of its squares.
UNEXPLAINED = 0.1
#: Of an output's largest change as inputs move by a rounding: an output farther off is another function's.
ANOTHER = 8.0
#: Of u and a tensor's largest entry: what a kernel may lose where a reference shows no backward in NumPy.
UNSEEN = 4.0
#: Of u: a reference that loses digits in float64 still says what a kernel of so few should return.
LEFT = 1 / 8
LAMBDA = 4.0
NO_REFERENCE = (
    "no reference: differences of the {} forward itself decide; reference=(a float64 pair or forward) tells more"
)


class Errors(NamedTuple):
    """Errors at the places of one tensor, then of coefficients, at one set of points: (P + coefficients,)."""

    mean: HostArray  # m
    scatter: HostArray  # s/√K
    floor: HostArray  # F
    stored: HostArray  # B
    once: HostArray  # L
    excess: float  # √(Σs²/ΣS²) over the places
    spread: float  # the root mean square of s

    @property
    def doubt(self) -> HostArray:
        """What m must exceed to be no rounding."""
        return np.asarray(LIMIT * np.sqrt(self.scatter**2 + self.floor**2))

    @property
    def shows(self) -> HostArray:
        """What an error must exceed to show."""
        return np.maximum(self.doubt, self.once)

    @property
    def stays(self) -> HostArray:
        """Where the error is no rounding; NaN is none."""
        return np.asarray(~(np.abs(self.mean) <= self.shows))

    @property
    def is_wrong(self) -> HostArray:
        """Where it is also more than roundings of what a kernel stores."""
        return np.asarray(self.stays & ~(np.abs(self.mean) <= WORST * self.stored))


class Coefficients(NamedTuple):
    """Those of a regression of the error on n, and on n and each of the reference's terms, as sums over the places."""

    texts: tuple[str, ...]  # "" of the first, the factor
    weights: HostArray  # (coefficients, P)
    once: HostArray  # (coefficients,)

    @classmethod
    def of(cls, n: HostArray, terms: Mapping[str, HostArray], entries: int, u: float) -> Coefficients:
        """n (P,) and what each term adds to it, (P,), by its text; only the first ``entries`` places count."""
        places = np.arange(len(n)) < entries
        n = np.where(places, n, 0.0)
        columns = {"": n} | {text: np.where(places, term, 0.0) for text, term in terms.items()}
        size = float(np.linalg.norm(list(columns.values())))
        texts, weights, once = [], [], []
        for text, column in columns.items():
            w = column - n * float(column @ n) / (float(n @ n) or 1.0) if text else column
            square = float(w @ w)
            if square > 1e-6 * float(column @ column):  # else a multiple of n, whose coefficient is the factor
                texts.append(text)
                weights.append(w / square)
                once.append(ONCE * u * (max(1.0, size / square**0.5) if text else 1.0))
        return cls(tuple(texts), np.reshape(weights, (len(texts), len(n))), np.array(once))


def errors_of(
    e: HostArray, draws: list[HostArray], spacing: HostArray, once: HostArray, others: Coefficients
) -> Errors:
    """e (K, P); draws: three times (draws, P), of F, B and S; spacing (P,): of the numbers that are stored."""
    kept = np.square(spacing) / 12  # the variance of one rounding of the result
    sizes = np.sum(np.square(draws[2]), axis=1).mean() + np.sum(kept)
    kept = np.concatenate([kept, np.square(others.weights) @ kept])
    e, floor, stored = (np.hstack([x, x @ others.weights.T]) for x in (e, *draws[:2]))
    if len(e) < 3:  # nearly all neighbours overflow: nothing can be told
        mean, scatter = np.zeros(e.shape[1]), np.full(e.shape[1], np.inf)
    else:
        mean, scatter = np.mean(e, axis=0), np.std(e, axis=0, ddof=1) / len(e) ** 0.5
    squares = len(e) * float(np.sum(np.square(scatter[: len(spacing)])))
    excess = float(np.sqrt(squares / sizes)) if sizes else np.inf if squares else 0.0
    once, spread = np.concatenate([once, others.once]), (squares / len(spacing)) ** 0.5
    return Errors(mean, scatter, _rms(floor, kept), _rms(stored, kept), once, excess, spread)


def _rms(draws: HostArray, more: HostArray) -> HostArray:
    return np.asarray(np.sqrt(np.mean(np.square(draws), axis=0) + more))


class TensorComparison(NamedTuple):
    """A tensor's gradient, beside the reference's at its places."""

    tensor: str
    claimed: HostArray
    places: Places
    exact: HostArray  # (P,)
    terms: Mapping[str, HostArray]  # (P,): what each term of the reference's formula adds
    coefficients: Coefficients
    errors: list[Errors]  # at one set of points, or at two

    @property
    def entries(self) -> int:
        return len(self.places.entries)

    def everywhere(self, name: str) -> HostArray:
        """Where errors have this property at every set of points."""
        return np.asarray(np.all([getattr(errors, name) for errors in self.errors], axis=0))

    @property
    def excess(self) -> HostArray:
        """The error, of what shows."""
        errors = self.errors[0]
        with np.errstate(all="ignore"):
            share = np.abs(errors.mean) / np.where(errors.shows > 0, errors.shows, np.where(errors.mean == 0, 1.0, 0.0))
        return np.nan_to_num(share, nan=np.inf, posinf=np.inf)


def row_of(compared: TensorComparison, precision: Format, most: float) -> Row:
    """The row; most: the largest gradient entry of the whole check."""
    a, n, errors, count = compared.claimed, compared.exact, compared.errors[0], compared.entries
    rough = min(ROUGH, ROUNDINGS * max(precision.u, precision.product))
    wrong, stays = compared.everywhere("is_wrong"), compared.everywhere("stays")
    scale, size = scale_of(n[:count], most), max(rms(n[:count]), NEGLIGIBLE * most)
    blind = (errors.doubt[:count] >= np.abs(n[:count])) & (errors.doubt[:count] > 0)
    a_here, infinite = compared.places.of(a)[:count], int(np.sum(~np.isfinite(a)))
    entry = int(np.argmax(np.where(np.isfinite(a_here), compared.excess[:count], np.inf)))
    place = tuple(int(i) for i in np.unravel_index(compared.places.entries[entry], a.shape))
    value, truth = float(a_here[entry]), float(n[entry])
    if infinite:
        verdict, note = WRONG, f"{infinite} of {a.size} entries are not finite in {precision.name}"
    elif stays.any():
        verdict, note = WRONG if wrong.any() else UNCLEAR, _what_stays(compared, wrong if wrong.any() else stays)
        note = f"in {precision.name}, {note}" + ("" if wrong.any() else "; too little to be called a mistake")
    elif all(one.excess > WORST and one.spread > rough * size for one in compared.errors):
        verdict = UNCLEAR
        much = f"{errors.excess:.2g} times as far as if every result were rounded once"
        share = percent(errors.spread / size, 1)
        note = f"in {precision.name}, errors scatter {much}, by {share} of the gradient: imprecise"
    else:
        power, squares = _Power.of(compared), np.square(n[:count])
        is_seen = power.error <= TOO_COARSE and np.sum(squares[blind]) <= 0.5 * np.sum(squares)
        is_told = bool(is_seen or max_abs(errors.doubt[:count]) <= TOO_COARSE * scale)
        verdict, note = RIGHT if is_told else UNCLEAR, f"in {precision.name}, {power.text(is_told)}"
    return Row(
        compared.tensor, a.shape, a.size, abs(value - truth) / scale, abs(value - truth) / scale, place, value, truth,
        scale, verdict, note + _underflow(n[:count], precision), unjudged=0 if infinite else int(np.sum(blind)),
    )  # fmt: skip


def _what_stays(compared: TensorComparison, where: HostArray) -> str:
    """What stays at points nearby: a term, a factor, an entry or a sum, the simplest that says it all."""
    coefficients, errors, total = compared.coefficients, compared.errors[0], len(compared.exact)
    for i in sorted(range(len(coefficients.texts)), key=lambda i: abs(errors.mean[total + i] + 1) > 0.2):
        value, text = float(errors.mean[total + i]), coefficients.texts[i]
        if where[total + i] and _unexplained(compared, i) <= UNEXPLAINED:
            sure = float(np.hypot(errors.scatter[total + i], errors.floor[total + i]))
            if not text:
                return f"{1 + value:.5g} ± {sure:.1g} times the reference's gradient, at {POINTS} points nearby"
            if abs(value + 1) <= 0.2:
                return f"as if `{text}` were missing: {value:+.3g} ± {sure:.1g} of it, at {POINTS} points nearby"
    ranked = np.where(where, compared.excess, -1.0)
    entries = ranked[: compared.entries]
    worst = int(np.argmax(entries if np.any(entries > 0) else ranked[:total]))
    if ranked[worst] <= 0:
        worst = int(np.argmax(compared.excess[:total]))
    rounding = float(errors.floor[worst]) * 3**0.5
    size = (
        f"as if rounded {abs(float(errors.mean[worst])) / rounding:.3g} times"
        if rounding
        else "where nothing is rounded"
    )
    place = "" if worst < compared.entries else f"{compared.places.label(worst)} is off, "
    return f"{place}{size}, at {POINTS} points nearby"


def _unexplained(compared: TensorComparison, which: int) -> float:
    """The share of the squared errors of entries that remains without n and the term of this coefficient."""
    e, columns = compared.errors[0].mean[: compared.entries], [compared.exact[: compared.entries]]
    if text := compared.coefficients.texts[which]:
        columns.append(compared.terms[text][: compared.entries])
    rest = e - np.array(columns).T @ np.linalg.lstsq(np.array(columns).T, e, rcond=None)[0]
    return float(rest @ rest / (e @ e or 1.0))


def _underflow(n: HostArray, precision: Format) -> str:
    """A clause on entries that a format with few exponents holds with fewer digits, or not at all."""
    low = int(np.sum((np.abs(n) < precision.smallest) & (np.abs(n) > precision.smallest * 1e-9)))
    if precision.name != "float16" or not low:
        return ""
    return f"; {low} of {n.size} entries are below float16's smallest normal number, 6.1e-05: scale the loss"


class _Power(NamedTuple):
    """What would have shown: the smallest error of the gradient as a whole, and which of the reference's terms."""

    error: float
    shown: tuple[str, ...]
    hidden: tuple[str, ...]

    @classmethod
    def of(cls, compared: TensorComparison) -> _Power:
        shows, weights = compared.errors[0].shows, compared.coefficients.weights

        def extended(x: HostArray) -> HostArray:
            return np.asarray(np.abs(np.concatenate([x, weights @ x])))

        with np.errstate(divide="ignore", invalid="ignore"):
            errors = shows / extended(compared.exact)
        shown = {text: bool(np.any(extended(lost) > shows)) for text, lost in compared.terms.items() if np.any(lost)}
        return cls(
            float(np.min(errors[np.isfinite(errors)], initial=np.inf)),
            tuple(text for text, is_shown in shown.items() if is_shown),
            tuple(text for text, is_shown in shown.items() if not is_shown),
        )

    def text(self, is_told: bool) -> str:
        """The clause of a row."""
        if not is_told:
            return "most of the gradient is less than what scatters at points nearby: too little would have shown"
        parts = [f"an error of {self.error:.1e} of the gradient would have shown"]
        parts += [f"so would the loss of {_listed(self.shown)}"] if self.shown else []
        parts += [f"the loss of {_listed(self.hidden)} would not"] if self.hidden else []
        return "; ".join(parts)


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")


class KernelPoint(NamedTuple):
    """The kernel at the point of the check, its inputs, and the precision of its numbers and of its sums."""

    checked: Subject
    inputs: list[Any]
    precision: Format
    inside: Format

    @classmethod
    def of(cls, target: Any, inputs: Sequence[Any], how: CheckOptions) -> KernelPoint:
        known = format_of(inputs, how.precision)
        placed = rounded_inputs(inputs, known)
        dtype = known.name if known.name in ("float64", "float16") else "float32"
        checked = Subject(target, placed, how.options, how.device, how.names, dtype, structure=how.structure)
        return cls(checked, placed, known, sums_in(how.accumulate, known))

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
    kernel = KernelPoint.of(target, inputs, how)
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

    def __init__(self, kernel: KernelPoint, how: CheckOptions, upstream: Upstream, claimed: HostArrays) -> None:
        self._kernel, self._how, self._upstream, self._claimed = kernel, how, upstream, claimed
        self._reference = Reference(
            how.reference, kernel.inputs, how.options, device=how.device, names=kernel.checked.input_names,
            structure=how.structure,
        )  # fmt: skip
        shapes = [[y.shape for y in one.outputs({})] for one in (kernel.checked, self._reference.subject)]
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
                TensorComparison(
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
        reference = self._reference
        if reference.has_backward:
            how = replace(self._how, why=False, names=self._kernel.checked.input_names, allow_length_one=True)
            report = at_one_point(reference.target, self._kernel.inputs, how)
        else:
            report = not_finite(reference.subject) or Report("", tuple(self._kinks()))
        problems = [f"reference: {problem}" for problem in report.problems]
        rows = [row for row in report.rows if row.note != LOST or row.scaled_error > LEFT * self._kernel.precision.u]
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
            if not (reference.has_backward and reference.is_seen):  # a subtraction inside its backward is not seen
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
            truth.outputs({name: nearby(x, 2 * u, rng) for name, x in truth.tensors.items()}) for _ in range(DRAWS)
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


def by_own_forward(checked: Subject, upstream: Upstream, claimed: HostArrays, precision: Format) -> tuple[Row, ...]:
    """The rows of a kernel without a reference: differences of its own forward decide, where they are fine enough.

    An entry is right if |a − n| ≤ 8e + λ·u·√N·A + φ: e the differences' error estimate, A the entry's reach
    (``verdict.py``), N the number of terms of L, whose roundings add like a random walk, λ = 4, and φ = λ·u·max(max|n|,
    rms(r·y)·√N / rms x). Source: Higham & Mary 2019, SIAM J. Sci. Comput. 41, theorem 3.1.
    """
    outputs = checked.outputs({})
    oracle = Oracle(checked, [upstream], use_complex=False)
    oracle.rounding = max(oracle.rounding, precision.u)  # bfloat16 numbers come as float32: steps would be too small
    evidence = {tensor: oracle.evidence(tensor) for tensor in claimed}
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
        told = float(np.sum(np.square(n[limit <= TOO_COARSE * np.abs(n)])))  # by entries at which zeros would be WRONG
        is_told = told >= 0.5 * float(np.sum(np.square(n))) or max_abs(limit) <= TOO_COARSE * scale
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
