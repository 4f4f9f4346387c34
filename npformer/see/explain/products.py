"""The products that add up to one entry of an array, read from the line of code that computes it.

    dweight = xp.matmul(xp.matrix_transpose(as_rows(x)), dy_rows)
    dweight[3,5]  =  Σ  x[b,t,3]·dy[b,t,5]

Sums and products are taken apart; any other expression is one factor. Of a function of a sum, such as 1/√(sum), the sum
is taken apart. What a name, a move or a call stands for is found by ``entries``.

``expand`` reads one entry, or many that are made in one way. ``sums_in`` reads all entries of every array that the
lines of a call made, for a page: entries that are made in several ways, such as those that dropout kept and those that
it dropped, are read apart.

Backward is linear in dy, so without reading a line each entry of a gradient is a sum of one term for each entry of dy:

    dx_i = Σ_o dy_o·J_oi        the term of dy_o is what backward returns at i if all other entries of dy are 0

Backward itself computes these ``terms``, one entry of dy at a time, so no formula is written a second time. Their sum
is the gradient of a single run up to the rounding of that sum.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.functional.arrays import namespace
from npformer.see.explain.entries import (
    OF_ONE,
    CannotExpand,
    Index,
    Mixed,
    PairRun,
    Spot,
    called,
    choice,
    depends,
    function_of,
    returned,
    settled,
    shown_as,
    upstream_part,
    within,
)
from npformer.see.record.calls import gradient_names
from npformer.see.record.lines import Frame
from npformer.typing import Array, HostArray

NOTHING = {"zeros_like", "zeros"}
#: What stands for the sum in the code around it.
SUM = "sum"
#: An array of one way of a call is told up to so many factors.
MOST_FACTORS = 20_000


class Factor(NamedTuple):
    """One factor of a product; spot: where it is from, if it is a part of the upstream gradient, else None."""

    text: str
    value: Any
    spot: Spot | None
    at: Index = ()
    shape: Index = ()  # of its array
    label: str = ""  # its text without the index, by which products of one form are known
    array: Any = None  # the array of which it is an entry
    is_below: bool = False  # it divides


class Term(NamedTuple):
    """One product."""

    sign: float
    factors: tuple[Factor, ...]

    @property
    def value(self) -> Any:
        return self.sign * prod(factor.value for factor in self.factors)

    @property
    def gradient(self) -> Factor | None:
        """The factor that depends on the upstream gradient: the only one, since a backward is linear in it."""
        return next((factor for factor in self.factors if factor.spot is not None), None)

    @property
    def text(self) -> str:
        return ("−" if self.sign < 0 else "") + "·".join(factor.text for factor in self.factors)


class CodeLine(NamedTuple):
    """The line of code that computes a number."""

    file: str
    number: int
    code: str


class Expansion(NamedTuple):
    """The line that computes an entry, and the products that add up to it.

    outside: the entry is one of the pair's upstream gradients, of this number; None: it is computed inside.
    around: the code in which the sum stands, as "1 / sqrt(sum)", if the entry is a function of it; total: the sum.
    """

    line: CodeLine
    terms: tuple[Term, ...]
    spot: Spot | None  # None: it was not read from a line
    outside: int | None = None
    around: str = ""
    total: Any = None


def expand(spot: Spot) -> Expansion:
    """The line that computes a number, and its products. Raises CannotExpand."""
    try:
        spot = settled(spot)
        step = spot.frame.steps[spot.step]
        code = "" if step.node is None else ast.unparse(step.node).partition("\n")[0]
        line = CodeLine(spot.frame.function.path.removeprefix("npformer/"), step.line, code)
        outside = upstream_part(spot)
        around, inner = ("", spot) if outside is not None else _inside(spot)
        terms = (Term(1.0, (_factor(spot),)),) if outside is not None else tuple(_terms(inner))
        value = inner.value()
    except (CannotExpand, Mixed):
        raise
    except Exception as error:  # an expression of another form than those that are taken apart
        raise CannotExpand(f"{spot.text}: {error}") from error
    largest = np.max([np.abs(value), *(np.broadcast_to(np.abs(term.value), np.shape(value)) for term in terms)], axis=0)
    added = np.asarray(sum(term.value for term in terms))
    with np.errstate(invalid="ignore"):  # −∞, of what a mask hides
        is_right = (added == value) | (np.abs(added - value) <= 1e-12 * largest)
    if not np.all(is_right):
        raise CannotExpand(f"{line.code}: its products do not add up to {value}")
    return Expansion(line, terms, spot, outside, around, value)


def _inside(spot: Spot) -> tuple[str, Spot]:
    """The code around the sum that an expression is a function of, and the sum; ("", the expression) if it is none."""
    match spot.node:
        case ast.Call(args=[node]) if function_of(spot) in OF_ONE:
            around = f"{function_of(spot)}({SUM})"
        case ast.BinOp(left=ast.Constant(), op=ast.Div(), right=node):
            around = f"{ast.unparse(spot.node.left)} / {SUM}"
        case ast.BinOp(left=node, op=ast.Pow(), right=ast.Constant() as power):
            around = f"{SUM} ** {power.value!r}"
        case _:
            return "", spot
    deeper, inner = _inside(spot.operand(node, spot.index))
    return (around.replace(SUM, deeper) if deeper else around), inner


def _terms(spot: Spot) -> Iterator[Term]:
    """The products of an expression that is no name, move or call of a kept function."""
    node, index, name = spot.node, spot.index, function_of(spot)
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield from _operand(spot, left, index)
            sign = 1.0 if isinstance(op, ast.Add) else -1.0
            yield from (Term(sign * term.sign, term.factors) for term in _operand(spot, right, index))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from (Term(-term.sign, term.factors) for term in _operand(spot, operand, index))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for a, b in product(_operand(spot, left, index), _operand(spot, right, index)):
                yield Term(a.sign * b.sign, a.factors + b.factors)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            below = spot.operand(right, index)
            divisor = _factor(choice(below) or below)
            inverse = divisor._replace(text=f"1/{divisor.text}", value=1 / divisor.value, spot=None, is_below=True)
            yield from (Term(term.sign, (*term.factors, inverse)) for term in _operand(spot, left, index))
        case ast.Call(args=[a, b]) if name == "matmul":
            yield from _product_terms(spot, a, b)
        case ast.Call() if name in ("sum", "mean"):
            yield from _sum_terms(spot, node, name == "mean")
        case ast.Call() if name in NOTHING:
            return
        case _:
            yield Term(1.0, (_factor(spot),))


def _product_terms(spot: Spot, left: ast.expr, right: ast.expr) -> Iterator[Term]:
    """Of a matrix product: over the axis that both share."""
    a, b = (np.shape(spot.value_of(each)) for each in (left, right))
    *batch, row, column = spot.index
    for k in range(a[-1]):
        first = within(a, (*batch, row, k))
        second = within(b, (*batch, k, column))
        yield Term(1.0, (_factor(spot.of(left, first)), _factor(spot.of(right, second))))


def _sum_terms(spot: Spot, node: ast.Call, is_mean: bool) -> Iterator[Term]:
    """Of a sum or a mean over some axes."""
    shape, named = np.shape(spot.value_of(node.args[0])), spot.keywords(node)
    axis = named.get("axis")
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    summed = sorted(each % len(shape) for each in axes)
    fixed = list(spot.index)
    if named.get("keepdims"):
        fixed = [i for place, i in enumerate(fixed) if place not in summed]
    share = prod(shape[each] for each in summed)
    for run in product(*(range(shape[each]) for each in summed)):
        at, rest = dict(zip(summed, run, strict=True)), iter(fixed)
        index = tuple(at[place] if place in at else next(rest) for place in range(len(shape)))
        for term in _operand(spot, node.args[0], index):
            extra = (Factor(f"1/{share}", 1 / share, None),) if is_mean else ()
            yield Term(term.sign, term.factors + extra)


def _operand(spot: Spot, node: ast.expr, index: Index) -> list[Term]:
    """The products of an operand: taken apart if the upstream gradient is in it, else one factor."""
    there = spot.operand(node, index)
    apart = isinstance(node, ast.BinOp | ast.UnaryOp) or (isinstance(node, ast.Call) and called(there) is None)
    if apart and depends(there):
        chosen = choice(there)
        return list(_terms(there)) if chosen is None else _operand(chosen, chosen.node, chosen.index)
    return [Term(1.0, (_factor(there),))]


def _factor(spot: Spot) -> Factor:
    """One factor, under the name of the array whose numbers are moved here."""
    shown = shown_as(spot)
    shape = np.shape(shown.array())
    from_dy = shown if depends(shown) else None
    return Factor(shown.text, shown.value(), from_dy, shown.index, shape, shown.label, shown.array())


def made_in(run: PairRun, frame: Frame, number: int) -> Iterator[tuple[str, Spot, Any]]:
    """(name, expression, value) of all that a statement made: names; what it returned, and the fields of a cache in it.

    The first returned value is called "return", others have no name.
    """
    is_last = number + 1 == len(frame.steps)
    if not is_last:
        for name, x in frame.steps[number].values.items():
            yield name, Spot(run, frame, number + 1, ast.Name(name, ast.Load()), ()), x
    for part, x in enumerate(as_tuple(frame.returned)) if is_last else ():
        try:
            spot = returned(run, frame, part, ())
        except CannotExpand:
            return
        if isinstance(spot.node, ast.Tuple) and spot.part is not None:
            spot = spot.of(spot.node.elts[spot.part], ())
        yield "" if part else "return", spot, x
        if hasattr(x, "_fields") and isinstance(spot.node, ast.Call):
            fields = zip(x._fields, spot.node.args, x, strict=False)
            yield from ((name, spot.of(node, ()), inner) for name, node, inner in fields)


class EntrySum(NamedTuple):
    """How some entries of an array, by their flat indices, were made: their expansion stands for all of them."""

    array: HostArray
    entries: HostArray
    expansion: Expansion


def sums_in(frame: Frame, *, entry: tuple[HostArray, int] | None = None) -> Iterator[EntrySum]:
    """The sums of every float array that a frame's lines made, those of the functions that they called included.

    entry: an array and the flat index of the one entry that is told, however many factors it has; None: all entries of
    every array with at most MOST_FACTORS.
    """
    seen: set[tuple[Index, bytes]] = set()
    for spot, array in _arrays(PairRun(frame), frame):
        key = (array.shape, array.tobytes())
        if key not in seen and (entry is None or np.array_equal(array, entry[0])):
            seen.add(key)
            entries = np.arange(array.size) if entry is None else np.array([entry[1]])
            yield from _sums(spot, array, entries, entry is None)


def _arrays(run: PairRun, frame: Frame) -> Iterator[tuple[Spot, HostArray]]:
    for number, step in enumerate(frame.steps):
        for inner in step.inside:
            yield from _arrays(run, inner)
        for _, spot, x in made_in(run, frame, number):
            if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f":
                yield spot, np.asarray(x)


def _sums(spot: Spot, array: HostArray, entries: HostArray, is_limited: bool) -> Iterator[EntrySum]:
    """The sums of these entries, in as many parts as there are ways in which they are made."""
    try:
        if is_limited and _factors_of_one(_at(spot, array, entries[:1])) * entries.size > MOST_FACTORS:
            return
        yield EntrySum(array, entries, expand(_at(spot, array, entries)))
    except (CannotExpand, TypeError, ValueError, IndexError):  # of another form than those that are taken apart
        return
    except Mixed as mixed:
        for part in (entries[mixed.is_first], entries[~mixed.is_first]):
            yield from _sums(spot, array, part, is_limited)


def _at(spot: Spot, array: HostArray, entries: HostArray) -> Spot:
    return replace(spot, index=np.unravel_index(entries, array.shape) if array.ndim else ())


def _factors_of_one(spot: Spot) -> int:
    """How many factors an entry has; of a matrix product without reading them."""
    there = settled(spot)
    if isinstance(there.node, ast.Call) and function_of(there) == "matmul":
        return 2 * int(np.shape(there.value_of(there.node.args[0]))[-1])
    return sum(len(term.factors) for term in expand(there).terms)


def terms(pair: Any, cache: Any, dy: Any, name: str, index: tuple[int, ...] | None = None) -> tuple[HostArray, ...]:
    """The terms of a gradient, an array for each part of dy: (the gradient's entries…, that part's entries…).

    The sum over the part's axes is the gradient. index: of the one entry whose terms are asked for, each array then
    like its part of dy. pair: an Operation, a Pair or (forward, backward); cache: of its forward; dy: the upstream
    gradient, a tuple if there are several outputs; name: of an input that has a gradient, by forward's signature.
    """
    backward = pair[1] if type(pair) is tuple else pair.backward
    gradients = as_tuple(backward(dy, cache))
    names = gradient_names(pair, len(gradients))
    which, entries = names.index(name), ... if index is None else index
    parts = [_host(part) for part in as_tuple(dy)]
    shapes = [(*np.shape(_host(gradients[which])[entries]), *part.shape) for part in parts]
    found = tuple(np.zeros(shape) for shape in shapes)
    for number, part in enumerate(parts):
        for at in map(tuple, np.argwhere(part)):
            single = [_zeros(other) for other in as_tuple(dy)]
            single[number][at] = part[at]
            found[number][(..., *at)] = _host(as_tuple(backward(like(dy, single), cache))[which])[entries]
    return found


def _zeros(x: Any) -> Array:
    return namespace(x).zeros_like(x) if np.ndim(x) or hasattr(x, "dtype") else np.zeros(())


def _host(x: Any) -> HostArray:
    return np.asarray(x.get() if hasattr(x, "get") and not isinstance(x, np.ndarray) else x, dtype=np.float64)
