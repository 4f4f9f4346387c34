"""Every number that the lines of a call made, as the sum of products of the line that made it: for a page.

``explain`` reads one entry at a time (``expand``). Here all entries of an array are read at once, and the products are
told as places: which array, and which of its entries. Entries that are made in several ways, such as those that
dropout kept and those that it dropped, are read apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple
from npformer.see.explain.expand import Expansion, Factor, Term, expand
from npformer.see.explain.origins import settled
from npformer.see.explain.spots import CannotExpand, Index, Mixed, Run, Spot, function_of, returned
from npformer.see.record.lines import Frame
from npformer.typing import HostArray

#: An array of one way of a call is told up to so many factors.
MOST_FACTORS = 20_000


class Operand(NamedTuple):
    """One factor of products: the entries of an array, (products, entries) or (products, 1) of them."""

    text: str
    array: HostArray
    at: HostArray
    is_below: bool


class Products(NamedTuple):
    """Products of one form, so many times for each entry."""

    times: int
    sign: float
    factors: tuple[Operand, ...]


class Sum(NamedTuple):
    """How some entries of an array were made. around, total: as in ``Expansion``."""

    array: HostArray
    entries: HostArray
    line: int
    code: str
    products: tuple[Products, ...]
    around: str
    total: HostArray


def sums_in(frame: Frame, *, entry: tuple[HostArray, int] | None = None) -> Iterator[Sum]:
    """The sums of every float array that a frame's lines made, those of the functions that they called included.

    entry: an array and the flat index of the one entry that is told, however many factors it has; None: all entries of
    every array with at most MOST_FACTORS.
    """
    seen: set[tuple[Index, bytes]] = set()
    for spot, array in _made(Run(frame), frame):
        key = (array.shape, array.tobytes())
        if key in seen or (entry is not None and not np.array_equal(array, entry[0])):
            continue
        seen.add(key)
        yield from _sums(spot, array, np.arange(array.size) if entry is None else np.array([entry[1]]), entry is None)


def _made(run: Run, frame: Frame) -> Iterator[tuple[Spot, HostArray]]:
    """Each array that a frame's lines made, and the expression that it is."""
    for number, step in enumerate(frame.steps):
        for inner in step.inside:
            yield from _made(run, inner)
        for name, x in step.values.items():
            if _is_told(x) and number + 1 < len(frame.steps):
                yield Spot(run, frame, number + 1, ast.Name(name, ast.Load()), ()), x
    for part, x in enumerate(as_tuple(frame.returned)):
        spot = _returned(run, frame, part)
        if spot is not None:
            yield from _parts(spot, x)


def _returned(run: Run, frame: Frame, part: int) -> Spot | None:
    try:
        spot = returned(run, frame, part, ())
    except CannotExpand:
        return None
    if isinstance(spot.node, ast.Tuple) and spot.part is not None:
        return spot.of(spot.node.elts[spot.part], ())
    return spot


def _parts(spot: Spot, x: Any) -> Iterator[tuple[Spot, HostArray]]:
    """An array, or those of a cache that is made here."""
    if _is_told(x):
        yield spot, x
    elif hasattr(x, "_fields") and isinstance(spot.node, ast.Call):
        for node, inner in zip(spot.node.args, x, strict=False):
            yield from _parts(spot.of(node, ()), inner)


def _is_told(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f"


def _sums(spot: Spot, array: HostArray, entries: HostArray, is_limited: bool) -> Iterator[Sum]:
    """The sums of these entries, in as many parts as there are ways in which they are made."""
    try:
        if is_limited and _factors_of_one(spot, array, entries[:1]) * entries.size > MOST_FACTORS:
            return
        expansion = _expanded(spot, array, entries)
    except (CannotExpand, TypeError, ValueError, IndexError):  # of another form than those that are taken apart
        return
    except Mixed as mixed:
        for part in (entries[mixed.is_first], entries[~mixed.is_first]):
            yield from _sums(spot, array, part, is_limited)
        return
    products = tuple(_alike(expansion.terms, entries.size))
    total = np.broadcast_to(expansion.total, entries.shape)
    yield Sum(array, entries, expansion.line.number, expansion.line.code, products, expansion.around, total)


def _expanded(spot: Spot, array: HostArray, entries: HostArray) -> Expansion:
    return expand(_at(spot, array, entries))


def _at(spot: Spot, array: HostArray, entries: HostArray) -> Spot:
    index = np.unravel_index(entries, array.shape) if array.ndim else ()
    return Spot(spot.run, spot.frame, spot.step, spot.node, index, spot.part)


def _factors_of_one(spot: Spot, array: HostArray, entry: HostArray) -> int:
    """How many factors an entry has; of a matrix product without reading them."""
    there = settled(_at(spot, array, entry))
    if isinstance(there.node, ast.Call) and function_of(there) == "matmul":
        return 2 * int(np.shape(there.value_of(there.node.args[0]))[-1])
    return sum(len(term.factors) for term in expand(there).terms)


def _alike(terms: tuple[Term, ...], count: int) -> Iterator[Products]:
    """Terms of one form together."""
    for (sign, labels), group in groupby(terms, lambda term: (term.sign, [_label(factor) for factor in term.factors])):
        rows = [term.factors for term in group]
        columns = zip(labels, zip(*rows, strict=True), strict=True)
        yield Products(len(rows), sign, tuple(_operand(label, column, count) for label, column in columns))


def _label(factor: Factor) -> str:
    return factor.label or factor.text


def _operand(label: str, factors: tuple[Factor, ...], count: int) -> Operand:
    first = factors[0]
    if first.array is None:  # a number by itself
        return Operand(label, np.asarray(first.value), np.zeros((1, 1), dtype=np.int64), False)
    places = [np.ravel_multi_index(factor.at, factor.shape) if factor.shape else 0 for factor in factors]
    at = np.stack([np.broadcast_to(place, (count,)) for place in places])
    at = at[:, :1] if np.all(at == at[:, :1]) else at
    at = at[:1] if np.all(at == at[:1]) else at
    return Operand(label, np.asarray(first.array, dtype=np.float64), at, first.is_below)
