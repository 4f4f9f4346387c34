"""What a wrong line lacks.

A gradient is a sum over the lines that use the name, ∂L/∂x = Σ_u ∂L/∂u · ∂u/∂x: each is a way from x to the loss. If
the claim is such a sum with other factors, the ways that are missing, or have a wrong sign or factor, are told. Then
the patterns of a wrong gradient are tried, and last the changes of the line's formula, and of the author's own lines
that it uses, that make it right at every point.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.derivations.grammar import Derivation, Line
from npformer.check.derivations.point import Point, aligned
from npformer.check.diagnosis.patterns import Clues, by_pattern, is_vague, name_of
from npformer.check.measures import NEGLIGIBLE, max_abs
from npformer.check.repairs import Point as Around
from npformer.check.repairs import Repair, repairs_of
from npformer.check.repairs.trial import Trial
from npformer.check.report import WRONG
from npformer.typing import HostArray, HostArrays

#: Relative: numbers this near are the same.
ALIKE = 1e-7


class Claim(NamedTuple):
    """A line's numbers at a point, and the measured ones; why there are none."""

    point: Point
    claimed: HostArray | None
    truth: HostArray | None
    failed: str


class Cause(NamedTuple):
    """The first wrong line, and what is known of its mistake."""

    line: int
    name: str
    sentences: tuple[str, ...]


def cause_of(
    derivation: Derivation, at: int, claims: Sequence[Claim], known: Sequence[Mapping[str, Any]], problem: str
) -> Cause:
    """Explain the wrong line at an index of the backward; known: what it may use, at each point."""
    line = derivation.backward[at]
    pairs = [(claim.point, claim.claimed, claim.truth) for claim in claims]
    sentences = [f"{line.name}: {problem}"] if problem else []
    found: Iterator[str] = iter(())
    if all(a is not None and n is not None for _, a, n in pairs):
        same = all(a.shape == n.shape for _, a, n in pairs if a is not None and n is not None)
        found = _seen(derivation, line, pairs, same)
    sentences += found
    is_plain = not any("own share" in sentence for sentence in sentences)  # no single change of the formula mends that
    repair = _repair(derivation, at, known, claims) if isinstance(line.of, str) and is_plain else None
    number = line.number
    if not sentences and repair is None and isinstance(line.of, str):
        sentences.append(_sum_of(derivation, line.of))
    if repair is not None:
        place = re.sub(r"^(line \d+) of \w+", r"\1", repair.place)
        own = int(place.split(":")[0].removeprefix("line "))
        ends = next(
            (each for each in derivation.backward if each.number <= own <= (each.value.end_lineno or own)), line
        )
        number = number if sentences and not problem else ends.number
        sentences.append(place)
    name = next(each.name for each in derivation.backward if each.number == number)
    return Cause(number, name, tuple(sentences))


def _seen(derivation: Derivation, line: Line, pairs: Sequence[Any], same: bool) -> Iterator[str]:
    """What the numbers themselves tell."""
    if isinstance(line.of, tuple):
        yield from _partials(line, pairs)
        return
    if not same:
        yield from _shapes(line, pairs)
        return
    ways = _ways(derivation, line, pairs)
    if ways:
        yield from ways
        return
    known = _another(derivation, line, pairs) or _own_entries(derivation, line, pairs)
    if known:
        yield known
        return
    read = [by_pattern(a, n, Clues(_named(point))) for point, a, n in pairs if n.size > 1]
    if read and len({each.cause for each in read}) == 1 and not is_vague(read[0]):
        yield f"{line.name}: {read[0].text}"


def _sum_of(derivation: Derivation, name: str) -> str:
    """What the gradient of a name is, where nothing tells what the claim lacks."""
    users = derivation.users(name)
    places = " and ".join(f"{user.name} (line {user.number})" for user in users)
    terms = " + ".join(f"d{user.name}·∂{user.name}/∂{name}" for user in users)
    return f"{name} is used by {places}: d{name} is {terms}, summed over all entries that it reaches"


def _ways(derivation: Derivation, line: Line, pairs: Sequence[Any]) -> list[str]:
    """The ways from the name to the loss that the claim lacks, or takes with another factor; none if it is no sum."""
    name: str = line.of  # type: ignore[assignment]
    users = derivation.users(name)
    fits = [_fit(a, [point.way(name, user.name) for user in users]) for point, a, _ in pairs]
    if not users or any(fit is None for fit in fits):
        return []
    sentences = []
    for i, user in enumerate(users):
        factors = [fit[i] for fit in fits if fit is not None and fit[i] is not None]
        if not factors or all(factor is not None and abs(factor - 1) <= 1e-6 for factor in factors):
            continue
        way = f"{name} reaches the loss through {user.name} (line {user.number})"
        term = f"d{user.name}·∂{user.name}/∂{name}"
        if all(factor is not None and abs(factor) <= 1e-6 for factor in factors):
            sentences.append(f"{way} as well: the term {term} is missing in {line.name}")
            continue
        names = [_factor(factor, point) for (point, *_), fit in zip(pairs, fits, strict=True)
                 if fit is not None and (factor := fit[i]) is not None]  # fmt: skip
        shared = set.intersection(*map(set, names))
        if not shared:
            return []
        factor = min(shared, key=len)
        what = "has the wrong sign" if factor == "−1" else f"is {factor} times what it should be"
        sentences.append(f"{way}: the term {term} {what} in {line.name}")
    return sentences


def _factor(factor: float, point: Point) -> list[str]:
    """The names of a factor at a point, and its digits."""
    name = name_of(factor, _named(point))
    return [name.partition(" = ")[0], f"{factor:.6g}"]


def _named(point: Point) -> dict[str, float]:
    sizes = {letter: float(size) for letter, size in point.sizes.items()}
    return sizes | {f"√{letter}": size**0.5 for letter, size in sizes.items()}


def _fit(a: HostArray, ways: Sequence[HostArray]) -> list[float | None] | None:
    """The factors with which ways sum up to a: None for one that is 0, and None if a is no such sum."""
    scale = max(map(max_abs, ways), default=0)
    own = [i for i, way in enumerate(ways) if max_abs(way) > 1e-9 * scale]
    if not own or a.size <= len(own):
        return None
    matrix = np.stack([ways[i].ravel() for i in own], axis=1)
    if np.linalg.matrix_rank(matrix, tol=1e-6 * scale) < len(own):
        return None
    solved = np.linalg.lstsq(matrix, a.ravel(), rcond=None)[0]
    if max_abs(matrix @ solved - a.ravel()) > ALIKE * max(max_abs(a), 1e-3 * scale):
        return None
    factors: list[float | None] = [None] * len(ways)
    for i, factor in zip(own, solved, strict=True):
        factors[i] = float(factor)
    return factors


def _another(derivation: Derivation, line: Line, pairs: Sequence[Any]) -> str:
    """That the claim is the gradient of another name."""
    for name in derivation.nodes:
        with suppress(Exception):
            if name != line.of and all(_alike(a, point.truth(name)) for point, a, _ in pairs):
                return f"{line.name}: this is the derivative by {name}, d{name}"
    return ""


def _own_entries(derivation: Derivation, line: Line, pairs: Sequence[Any]) -> str:
    """That the claim takes of a later value only the entry in each one's own place: of its Jacobian the diagonal."""
    name, nodes = str(line.of), derivation.nodes
    for later in nodes[nodes.index(name) + 1 :]:
        if all(np.shape(p.values[later]) == n.shape and n.size > 1 for p, _, n in pairs):
            slopes = [p.total(later, name) for p, *_ in pairs]
            owns = [
                np.diag(x.reshape(n.size, n.size)).reshape(n.shape) for x, (*_, n) in zip(slopes, pairs, strict=True)
            ]
            if all(_alike(a, p.truth(later) * own) for (p, a, _), own in zip(pairs, owns, strict=True)):
                return (f"{line.name}: it takes only each entry's own share of {later}; an entry of {name} changes "
                        f"other entries of {later}, too, and their shares are missing")  # fmt: skip
    return ""


def _partials(line: Line, pairs: Sequence[Any]) -> Iterator[str]:
    """That a partial derivative is the total one."""
    assert isinstance(line.of, tuple)
    a, b = line.of
    totals = [aligned(point.total(a, b), np.shape(point.values[a])) for point, *_ in pairs]
    if all(_alike(claimed, total) for (_, claimed, _), total in zip(pairs, totals, strict=True)):
        yield (f"this is the total derivative of {a} by {b}; partial({a}, {b}) holds every other name that {a}'s "
               f"own line uses")  # fmt: skip


def _shapes(line: Line, pairs: Sequence[Any]) -> Iterator[str]:
    """What a claim of another shape lacks."""
    for axis in range(max(a.ndim for _, a, _ in pairs)):
        for keep in (True, False):
            with suppress(Exception):
                if all(_alike(a.sum(axis=axis, keepdims=keep), n) for _, a, n in pairs):
                    yield f"{line.name} has to be summed over axis {axis}: .sum(axis={axis}, keepdims={keep})"
                    return
    if all(a.size == n.size and _alike(a.reshape(n.shape), n) for _, a, n in pairs):
        yield f"the numbers of {line.name} are right, in another shape: is keepdims=True missing, or too much?"
    elif all(_alike(a.T, n) for _, a, n in pairs):
        yield f"{line.name} is right but transposed"


def _alike(x: HostArray, y: HostArray) -> bool:
    with suppress(ValueError):
        x = np.broadcast_to(x, y.shape) if x.ndim < y.ndim else x
    return x.shape == y.shape and max_abs(x - y) <= ALIKE * max(max_abs(y), 1e-300)


class _Here(NamedTuple):
    """A point as the search for a change sees it."""

    number: int
    tensors: HostArrays

    def symmetric(self, gradients: HostArrays) -> HostArrays:
        return gradients


def _repair(
    derivation: Derivation, at: int, known: Sequence[Mapping[str, Any]], claims: Sequence[Claim]
) -> Repair | None:
    """The change of the line, or of the author's own lines above, that makes it right at all points."""
    name = derivation.backward[at].name
    function = _function(derivation, at, known[0])
    truths: list[HostArrays] = [{name: np.asarray(claim.truth)} for claim in claims]
    heres = [_Here(number, truth) for number, truth in enumerate(truths)]

    def run(number: int) -> HostArrays:
        function.__globals__["partial"] = claims[number].point._partial
        return {name: np.asarray(function(*map(known[number].get, _arguments(function))))}

    def verdicts(here: Any) -> Mapping[str, str]:
        found, truth = run(here.number)[name], truths[here.number][name]
        size = max(max_abs(truth), NEGLIGIBLE * claims[here.number].point.largest)
        return {name: "right" if found.shape == truth.shape and max_abs(found - truth) <= ALIKE * size else WRONG}

    checked: Any = heres[0]
    others: Any = heres[1:]
    around = Around(checked, (), truths[:1], {}, {name}, lambda: others, verdicts)
    found, _ = repairs_of(around, [name], trials=[Trial(function, _forward(derivation), run)])
    return found[0] if found else None


def _arguments(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _function(derivation: Derivation, at: int, known: Mapping[str, Any]) -> FunctionType:
    """The line, and the author's own lines that it needs, as a function of what is known; lines keep their numbers."""
    line, own, needed = derivation.backward[at], list[Line](), set[str]()
    needed |= line.uses
    for above in derivation.backward[:at][::-1]:
        is_own = above.of is None or above.name == line.name
        if is_own and above.name in needed and not isinstance(above.of, tuple):
            own.insert(0, above)
            needed |= above.uses
    set_here = {above.name for above in own} | {line.name}
    names = [name for name in known if name not in set_here]
    return _made(derivation, [*own, line], names, line.name)


def _forward(derivation: Derivation) -> FunctionType:
    names = [*derivation.letters, *(each.name for each in derivation.inputs)]
    return _made(derivation, derivation.forward, names, derivation.output)


def _made(derivation: Derivation, lines: Sequence[Line], names: Sequence[str], result: str) -> FunctionType:
    rows = [""] * max(line.number for line in lines)
    rows[0] = f"def derived({', '.join(names)}):"
    for line in lines:
        rows[line.number - 1] = f" {line.name} = {ast.unparse(line.value)}"
    rows[-1] += f"; return {result}"  # on the last line, so that a change of what is returned is one of that line
    text = "\n".join(rows) + "\n"
    file = f"<derivation {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np, "partial": None}
    exec(compile(text, file, "exec"), scope)
    made: FunctionType = scope["derived"]
    return made
