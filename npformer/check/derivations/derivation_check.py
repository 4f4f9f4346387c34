"""Each line of a derivation against what was measured, and what the first wrong one lacks.

A line is judged by itself: the gradients above it that it uses are the measured ones, so one mistake accuses one line.
What has another name than a gradient is the author's own, and is computed as written.

A gradient is a sum over the lines that use the name, ∂L/∂x = Σ_u ∂L/∂u · ∂u/∂x: each is a way from x to the loss. If
the claim is such a sum with other factors, the ways that are missing, or have a wrong sign or factor, are told. Then
the changes of the line's formula, and of the author's own lines that it uses, that make it right at every point.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from npformer.check.causes import SearchTarget, repairs_of
from npformer.check.causes.patterns import AGREES, agree, by_shape, names_of
from npformer.check.causes.trial import Trial
from npformer.check.checkable import listed
from npformer.check.derivations.grammar import Derivation, DerivationLine
from npformer.check.derivations.point import DerivationPoint, aligned, points_of
from npformer.check.measures import NEGLIGIBLE, max_abs
from npformer.check.report import NOT_YET, OWN, RIGHT, WRONG, Claim, Report
from npformer.errors import DataError
from npformer.typing import HostArray, HostArrays, Named, Values

#: Relative to the largest entry: a gradient this near to the measured one is right.
TOLERANCE = 1e-7


@dataclass(frozen=True, repr=False)
class JudgedDerivation(Report):
    """A claim for each line of the backward, whose reason is a wrong shape, or why it cannot be computed."""

    left: tuple[str, ...] = ()  # inputs whose gradient nobody derived

    @property
    def cause(self) -> Claim | None:
        """The first wrong line; its details say what it lacks."""
        return next((claim for claim in self.claims if claim.details), None)

    def lines(self, columns: int = 80) -> list[str]:
        """The lines with their verdicts, and what the first wrong one lacks."""
        width = max(len(claim.name) for claim in self.claims)
        lines = [f"  {claim.verdict:<8}   {claim.name:<{width}}   line {claim.line}" for claim in self.claims]
        return [*lines, *[""] * (self.ok or self.cause is not None), *self.remarks()]

    def remarks(self) -> list[str]:
        """What the first wrong line lacks; or that all are right; and what nobody derived."""
        told = [f"all {sum(claim.ok for claim in self.claims)} compared lines are right"] * self.ok
        if self.cause:
            told = [f"The first wrong line is line {self.cause.line}, {self.cause.name}."]
            told += [f"  {sentence}" for sentence in self.cause.details]
        return told + [f"not derived: {', '.join(f'd{name}' for name in self.left)}"] * bool(self.left)


def judge(derivation: Derivation) -> JudgedDerivation:
    """Judge every line. Raises DataError if the forward cannot be computed."""
    points = points_of(derivation)
    known = [{**point.values, f"d{derivation.output}": point.upstream} for point in points]
    judged, accused, told = list[Claim](), 0, tuple[str, ...]()
    for at, line in enumerate(derivation.backward):
        last = not any(later.name == line.name for later in derivation.backward[at + 1 :])
        claims = [_claim(point, line, values) for point, values in zip(points, known, strict=True)]
        verdict, problem = _verdict(line if last else line._replace(of=None), claims)
        formula = f"{line.name} = {ast.unparse(line.value)}"
        judged.append(Claim(line.name, formula, verdict, problem, line=line.number))
        if verdict == WRONG and not accused:
            accused, told = cause_of(derivation, at, claims, problem)
        for values, claim in zip(known, claims, strict=True):
            is_measured = claim.claimed is None or (line.of and last)
            if not isinstance(line.of, tuple) and (value := claim.truth if is_measured else claim.claimed) is not None:
                values[line.name] = value
    derived = {line.name for line in derivation.backward}
    left = [
        each.name
        for each in derivation.inputs
        if each.kind != "whole" and each.shape and f"d{each.name}" not in derived
    ]
    lines = [replace(claim, details=told) if claim.line == accused else claim for claim in judged]
    return JudgedDerivation(derivation.path, claims=tuple(lines), left=tuple(left))


def _claim(point: DerivationPoint, line: DerivationLine, values: Named) -> LineAtPoint:
    """What a line gives at a point, and what it should."""
    truth, claimed, failed = None, None, ""
    if isinstance(line.of, tuple):
        truth = aligned(point.slope(*line.of), np.shape(point.values[line.of[0]]))
    elif line.of:
        truth = point.truth(line.of)
    try:
        claimed = None if line.is_blank else np.asarray(point.evaluate(line, values)).astype(float, casting="same_kind")
    except DataError:
        raise
    except Exception as error:
        needed = "" if truth is None else f"; {line.name} is to be {point.named(truth.shape)}"
        failed = f"it cannot be computed: {point.why_not(line, values, error)}{needed}"
    return LineAtPoint(point, claimed, truth, failed, values)


def _verdict(line: DerivationLine, claims: Sequence[LineAtPoint]) -> tuple[str, str]:
    if line.is_blank:
        return NOT_YET, ""
    for point, claimed, truth, failed, _ in claims:
        if failed:
            return WRONG, failed
        if line.of is None or claimed is None or truth is None:
            continue
        if isinstance(line.of, tuple):
            with contextlib.suppress(ValueError):  # a factor need not have the whole shape
                claimed = np.broadcast_to(claimed, truth.shape)
        if claimed.shape != truth.shape:
            of = " and then ".join(f"that of {name}" for name in np.ravel(line.of))
            return WRONG, f"it has the shape {point.named(claimed.shape)}, expected {point.named(truth.shape)}, {of}"
        if not np.isfinite(claimed).all():
            return WRONG, "it is not finite"
        if not max_abs(claimed - truth) <= TOLERANCE * max(max_abs(truth), NEGLIGIBLE * point.largest):
            return WRONG, ""
    return RIGHT if line.of else OWN, ""


class LineAtPoint(NamedTuple):
    """A line's numbers at a point, and the measured ones, both None if there are none; why there are none."""

    point: DerivationPoint
    claimed: Any
    truth: Any
    failed: str
    known: Named  # what the line may use


def cause_of(
    derivation: Derivation, at: int, claims: Sequence[LineAtPoint], problem: str
) -> tuple[int, tuple[str, ...]]:
    """The number of the line to blame for a wrong one, which is that at an index of the backward, and sentences."""
    line = derivation.backward[at]
    told, number = [f"{line.name}: {problem}"] if problem else [], line.number
    if line.of and not any(claim.failed for claim in claims):
        told += _seen(derivation, line, claims)
    is_one_change = isinstance(line.of, str) and not any("own share" in sentence for sentence in told)
    if is_one_change and (place := _repair(derivation, at, claims)):
        number = number if told and not problem else int(place.partition(":")[0].removeprefix("line "))
        told.append(place)
    return number, tuple(told or [_throughout(line, claims) or _sum_of(derivation, line.of)])


def _throughout(line: DerivationLine, claims: Sequence[LineAtPoint]) -> str:
    """A name that lacks a factor wherever it stands in the line."""
    arrays = [name for name, value in claims[0].known.items() if np.ndim(value)]
    for name, factor in itertools.product(sorted(line.uses.intersection(arrays)), arrays if line.of else ()):
        with contextlib.suppress(ValueError):
            values = [{**each.known, name: each.known[name] * each.known[factor]} for each in claims]
            if all(agree(np.asarray(c.point.evaluate(line, v)), c.truth) for c, v in zip(claims, values, strict=True)):
                return f"with {name} * {factor} in the place of {name} it is right"
    return ""


def _sum_of(derivation: Derivation, of: Any) -> str:
    """What a derivative is, where nothing tells what the claim lacks."""
    if isinstance(of, tuple):
        a, b = of
        return f"{a} is line {derivation.line_of(a).number}: its derivative by {b}, with every other name held"
    users = derivation.users(of)
    if not users:
        given = f"d{of} is given: leave this line out"
        return given if of == derivation.output else f"no line uses {of}: d{of} is 0"
    places = " and ".join(f"{user.name} (line {user.number})" for user in users)
    terms = " + ".join(f"d{user.name}·∂{user.name}/∂{of}" for user in users)
    return f"{of} is used by {places}: d{of} is {terms}, summed over all entries that it reaches"


def _seen(derivation: Derivation, line: DerivationLine, claims: Sequence[LineAtPoint]) -> list[str]:
    """What the numbers themselves tell."""
    if isinstance(line.of, tuple):
        a, b = line.of
        is_total = all(agree(x, aligned(p.total(a, b), np.shape(p.values[a]), own=True)) for p, x, *_ in claims)
        means = f"{line.name} holds all else that {a}'s line uses"
        return [f"this is the total derivative of {a} by {b}; {means}"] if is_total else []
    if any(a.shape != n.shape for _, a, n, *_ in claims):
        found = {by_shape(a, n) for _, a, n, *_ in claims}
        return [f"{line.name} {each.text}" for each in found if each] if len(found) == 1 else []
    alone = [
        f"{line.name} is d{user.name} alone: the factor ∂{user.name}/∂{line.of} is missing"
        for user in derivation.users(str(line.of))
        if all(agree(a, point.truth(user.name)) for point, a, *_ in claims)
    ]
    return _ways(derivation, line, claims) or alone or _own_entries(line, claims)


def _ways(derivation: Derivation, line: DerivationLine, claims: Sequence[LineAtPoint]) -> list[str]:
    """The ways from the name to the loss that the claim lacks, or takes with another factor; none if it is no sum."""
    of, users, told = str(line.of), derivation.users(str(line.of)), []
    fits = [_fit(a, [point.way(of, user.name) for user in users]) for point, a, *_ in claims]
    if not users or not all(fits):
        return []
    for i, user in enumerate(users):
        names = [_names(fit[i], point) for fit, (point, *_) in zip(fits, claims, strict=True) if i in fit]
        shared = set(names[0]).intersection(*names) if names else {"1"}  # a way of zeros is not asked for
        if not shared:
            return []
        factor = min(shared, key=names[0].index) if names else "1"
        term, way = f"the term d{user.name}·∂{user.name}/∂{of}", f"{of} reaches the loss through {user.name} (line "
        what = {"0": "is missing", "−1": "has the wrong sign"}.get(factor, f"is {factor} times what it should be")
        told += [f"{way}{user.number}){' as well' * (factor == '0')}: {term} {what} in {line.name}"] * (factor != "1")
    return told


def _names(factor: float, point: DerivationPoint) -> list[str]:
    """The names of a factor at a point, from numbers and sizes; then its digits."""
    roots = {f"√{letter}": size**0.5 for letter, size in point.sizes.items()}
    return [*names_of(factor, point.sizes | roots), f"{factor:.6g}"]


def _fit(a: HostArray, ways: Sequence[HostArray]) -> dict[int, float]:
    """The factors with which the ways that are not 0 sum up to a, by their index; empty if it is no such sum."""
    scale = max(map(max_abs, ways), default=0)
    own = [i for i, way in enumerate(ways) if max_abs(way) > 1e-9 * scale]
    if not own or a.size <= len(own):
        return {}
    matrix = np.stack([ways[i].ravel() for i in own], axis=1)
    solved, _, rank, _ = np.linalg.lstsq(matrix, a.ravel(), rcond=1e-6)
    is_sum = rank == len(own) and max_abs(matrix @ solved - a.ravel()) <= AGREES * max(max_abs(a), 1e-3 * scale)
    return dict(zip(own, map(float, solved), strict=True)) if is_sum else {}


def _own_entries(line: DerivationLine, claims: Sequence[LineAtPoint]) -> list[str]:
    """That the claim takes of a later value only the entry in each one's own place: of its Jacobian the diagonal."""
    of = str(line.of)

    def is_own(point: DerivationPoint, later: str, a: HostArray) -> bool:
        own = aligned(point.total(later, of), np.shape(point.values[later]), own=True)
        return a.size > 1 and own.shape == a.shape and agree(a, np.asarray(point.truth(later) * own))

    for later in (each.name for each in claims[0].point.after(of)):
        if all(is_own(point, later, a) for point, a, *_ in claims):
            return [f"{line.name} takes only each entry's own share of {later}: an entry of {of} changes other entries "
                    f"of {later}, too, and their shares are missing"]  # fmt: skip
    return []


def _repair(derivation: Derivation, at: int, claims: Sequence[LineAtPoint]) -> str:
    """The change of the line, or of the author's own lines above, that makes it right at all points; "" for none.

    A simple change of the line itself comes first: its own lines may be right, and used by others.
    """
    line = derivation.backward[at]
    alone, whole = _made([line], claims[0].known), _made(_with_own(derivation, at), claims[0].known)
    searches = [(alone, True), (whole, False)] if line.name not in line.uses else [(whole, False)]
    found = (_change(derivation, line.name, function, is_brief, claims) for function, is_brief in searches)
    return next(filter(None, found), "")


def _change(
    derivation: Derivation, name: str, function: FunctionType, is_brief: bool,
    claims: Sequence[LineAtPoint],
) -> str:  # fmt: skip
    """The change of a function that gives a line's value."""
    lines = [line._replace(number=number) for number, line in enumerate(derivation.forward, 2)]
    forward = _made(lines, [*derivation.letters, *derivation.nodes])
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    truths: list[HostArrays] = [{name: claim.truth} for claim in claims]

    def run(number: int) -> HostArrays:
        function.__globals__["partial"] = claims[number].point.partial
        try:
            return {name: np.asarray(function(*map(claims[number].known.get, arguments)))}
        except Exception:  # a change may mend that, too
            return {name: np.full(truths[number][name].shape, np.nan)}

    def verdicts(here: Any) -> Mapping[str, str]:
        found, truth = run(here.number)[name], truths[here.number][name]
        size = NEGLIGIBLE * claims[here.number].point.largest
        return {name: RIGHT if agree(found, truth, size) else WRONG}

    heres: Any = [SimpleNamespace(number=i, tensors=truth, symmetric=lambda g: g) for i, truth in enumerate(truths)]
    around = SearchTarget(heres[0], (), truths[:1], {}, {name}, lambda: heres[1:], verdicts)
    found, _ = repairs_of(around, [name], [Trial(function, forward, run)], is_brief)
    by_chance = rf"[<>]=? (?:{'|'.join(derivation.letters)})\b" if derivation.letters else r"\.shape"  # of these sizes
    place = next((each.place for each in found if not re.search(by_chance, each.place)), "")
    return re.sub(r"^(line \d+) of \w+", r"\1", place)


def _with_own(derivation: Derivation, at: int) -> list[DerivationLine]:
    """The line, after the author's own lines that it needs."""
    line = derivation.backward[at]
    lines, needed = [line], set(line.uses)
    for above in derivation.backward[:at][::-1]:
        if above.name in needed and (above.of is None or above.name == line.name):
            lines.insert(0, above)
            needed |= above.uses
    return lines


def _made(lines: Sequence[DerivationLine], known: Iterable[str]) -> FunctionType:
    """Lines, with their numbers, as a function of the names known that they do not set."""
    arguments = [name for name in known if name not in {line.name for line in lines}]
    rows = [f"def derived({', '.join(arguments)}):", *[""] * (lines[-1].number - 1)]
    for line in lines:
        rows[line.number - 1] = f" {line.name} = {ast.unparse(line.value)}"
    rows[-1] += f"; return {lines[-1].name}"  # on the same line, so that a change of what is returned is one of it
    text = "\n".join(rows) + "\n"
    scope: Values = {"np": np, "partial": None}
    exec(compile(text, listed(text, f"<derivation {hash(text)}>"), "exec"), scope)
    return cast(FunctionType, scope["derived"])
