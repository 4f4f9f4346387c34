"""The walk over regimes and sizes: the same check at the user's inputs as each regime changes them.

What the forward refuses, or where it is not finite, is *not tried*, with the reason. Where it answers and the backward
does not, there is a PROBLEM, unless lengths are no longer equal that were, or one is 1. A kink is told as one. A
gradient is WRONG in a regime only if it is WRONG again for other upstream gradients. The first failing point is made
smaller as long as it fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.checkable import ConstantInput, parameters_of
from npformer.check.inputs import Leaf, leaves_of, parameter_names, rebuilt
from npformer.check.look import CheckOptions, upstreams_of
from npformer.check.measures import direction_in
from npformer.check.oracles import CENTRAL_H, SAME, Oracle
from npformer.check.prepared import forward_of
from npformer.check.regimes import (
    EDGES,
    MOST,
    REGIMES,
    THE_REST,
    Around,
    Regimes,
    Size,
    axes_by_length,
    chosen,
    elements,
    lengths_of,
    resized,
    sizes_of,
    variants,
)
from npformer.check.report import KINK, NOT_TRIED, NOTHING, PROBLEM, RIGHT, UNCLEAR, WRONG, Report, Row, Tried
from npformer.check.subject import Subject
from npformer.io.progress_bar import watched
from npformer.typing import HostArray, HostArrays, Named, Tensors, Values

#: An input of so many elements is checked element by element at another size, a larger one along directions.
FEW = 40
#: Checks that may be spent on making a failing point smaller.
MOST_SHRINKS = 40
#: Of a tensor's scale, or in roundings: in few digits, a smaller error in a regime accuses nobody. What approximated
#: functions, large arguments and underflow lose there is known too roughly.
VISIBLE, SOME, MANY = 0.1, 30.0, 1000.0
AT_SIZES = "sizes"
#: An array of at most so many numbers is shown.
MOST_SHOWN = 12

Check = Callable[[Sequence[Any], CheckOptions], Report]


def in_regimes(
    report: Report,
    target: Any,
    ready: Sequence[Any],
    how: CheckOptions,
    check: Check,
    regimes: Regimes | None,
    sizes: Any,
) -> Report:
    """The report with a walk over regimes and sizes; without one if a gradient is not right where it is."""
    if not report.ok:
        return replace(report, notes=(*report.notes, "regimes: not tried, for a gradient is not right as it is"))
    edges = EDGES if sizes is None or callable(sizes) else tuple(sizes)
    with np.errstate(all="ignore"):  # that is the point of a regime
        return _told(report, how, check, *Walk(target, ready, how, check).over(regimes, edges))


def _told(
    report: Report, how: CheckOptions, check: Check, tried: Sequence[Tried], failing: NamedInputs | None
) -> Report:
    """The report with what was tried; the first failure with its cause, and the smallest input that shows it."""
    report = replace(report, regimes=tuple(tried))
    if failing is None:
        return report
    first = next(one for one in tried if one.fails)
    why = check(failing.values, replace(how, options=failing.options, allow_length_one=True, in_regime=True))
    row = next(iter(why.wrong), None)
    cause = f": {row.diagnosis}" if row is not None and row.diagnosis else ""
    what = f"the gradient of {first.tensor}{cause}" if first.verdict == WRONG else first.note
    text = f"first {first.verdict} in {first}: {what}"
    notes = (*report.notes, text, f"the smallest input found at which it is: {_shown(failing)}")
    return replace(report, notes=notes, smallest=failing.values)


class NamedInputs(NamedTuple):
    """Inputs and options by name: each array, and everything else."""

    inputs: tuple[tuple[str, Any], ...]
    options: Values
    arrays: HostArrays

    @classmethod
    def of(cls, inputs: Sequence[Any], names: Sequence[str], options: Values) -> NamedInputs:
        """The point at inputs of these names; an option of an input's name is passed on as it is."""
        named = tuple(zip(names, inputs, strict=True))
        leaves = [leaf for name, x in named for leaf in leaves_of(name, x)]
        leaves += [Leaf(name, x) for name, x in options.items() if name not in {leaf.name for leaf in leaves}]
        kept = {n: x for n, x in leaves if isinstance(x, np.ndarray) and not isinstance(x, ConstantInput)}
        return cls(named, options, {n: x for n, x in kept.items() if x.dtype.kind in "fiub"})

    def at(self, arrays: Tensors) -> NamedInputs:
        """The point with other arrays."""
        inputs = [(n, rebuilt(x, iter([arrays.get(*leaf) for leaf in leaves_of(n, x)]))) for n, x in self.inputs]
        options = {name: arrays.get(name, x) if name in self.arrays else x for name, x in self.options.items()}
        return NamedInputs(tuple(inputs), options, {**self.arrays, **arrays})

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(x for _, x in self.inputs)


class Walk:
    """A check at all regimes and sizes."""

    def __init__(self, target: Any, ready: Sequence[Any], how: CheckOptions, check: Check) -> None:
        self._target, self._check = target, check
        self._how = replace(how, why=False, allow_length_one=True, repeat=None, in_regime=True)
        forward = forward_of(target)
        names = list(how.names or parameter_names(forward, len(ready)))
        self._point = NamedInputs.of(ready, names, how.options)
        self._rng = np.random.default_rng([how.seed, 12])
        ints = [x for x in self._point.arrays.values() if x.dtype.kind in "iu"]
        lengths = lengths_of(self._point.arrays)
        ignored = _ignored(forward, how.options)
        self._around = Around(how.precision or _precision(self._point), ints, ignored, lengths)

    def over(self, regimes: Regimes | None, edges: Sequence[int]) -> tuple[list[Tried], NamedInputs | None]:
        """Every regime and size, and the smallest failing point that was found."""
        points = [*self._regimes(regimes), *self._sizes(edges)]
        tried, failing = [], None
        for regime, where, point in watched(points, "regimes", name=lambda one: f"{one[0]} {one[1]}"):
            tried.append(point if isinstance(point, Tried) else self._tried(regime, where, point))
            if failing is None and tried[-1].fails and isinstance(point, NamedInputs):
                failing = self._smaller(point, regime)
        return tried, failing

    def _regimes(self, regimes: Regimes | None) -> Iterator[tuple[str, str, NamedInputs | Tried]]:
        if regimes is None:
            return
        wanted = chosen(regimes, list(self._point.arrays))
        for regime in REGIMES:
            points = [
                (regime, name, self._point.at({name: there}))
                for name, x in self._point.arrays.items()
                if regime in wanted.get(name, ())
                for there in variants(regime, x, self._around)
            ]
            yield from points
            if not points and any(regime in names for names in wanted.values()):
                yield regime, "", Tried(regime, "", NOT_TRIED, note="there is no such input")

    def _sizes(self, edges: Sequence[int]) -> Iterator[tuple[str, str, NamedInputs | Tried]]:
        if edges:
            arrays = self._point.arrays
            for size in sizes_of(arrays, edges, lambda size: not self._why_not(self._resized(size))):
                if elements(arrays, size) > MOST:
                    note = f"more than {MOST:,} numbers"
                    yield AT_SIZES, size.name, Tried(AT_SIZES, size.name, NOT_TRIED, note=note)
                else:
                    yield AT_SIZES, size.name, self._resized(size)

    def _resized(self, size: Size) -> NamedInputs:
        return self._point.at(resized(self._point.arrays, size, self._rng))

    def _subject(self, point: NamedInputs) -> Subject:
        low = self._how.precision or self._around.precision
        dtype = low if self._how.is_low and low in ("float32", "float16") else "float64"
        return Subject(self._target, point.values, point.options, self._how.device, self._how.names, dtype)

    def _why_not(self, point: NamedInputs) -> str:
        """Why a point cannot be tried; "" if it can."""
        try:
            outputs = self._subject(point).outputs({})
        except Exception as error:
            return f"forward refuses it: {_said(error)}"
        return "" if all(np.all(np.isfinite(y)) for y in outputs) else "forward is not finite"

    def _tried(self, regime: str, where: str, point: NamedInputs) -> Tried:
        """The verdict at a point."""
        if why := self._why_not(point):
            return Tried(regime, where, NOT_TRIED, note=why)
        if regime == AT_SIZES and (quick := self._agreeing(where, point)):
            return quick
        try:
            found = self._verdict(regime, where, point, self._how)
            if found.verdict == WRONG:  # again, for other upstream gradients
                again = self._verdict(regime, where, point, replace(self._how, seed=self._how.seed + 1))
                found = found if again.verdict == WRONG else again
        except Exception as error:
            return Tried(regime, where, UNCLEAR, note=f"the check fails: {_said(error)}")
        if found.verdict == PROBLEM and (THE_REST in where or where.endswith(" = 1")) and "NaN" not in found.note:
            return replace(found, verdict=NOT_TRIED)  # forward may take lengths that do not fit, and broadcast one row
        return found

    def _agreeing(self, where: str, point: NamedInputs) -> Tried | None:
        """Right at a size, if claims, complex step and differences agree along one direction a tensor; else None."""
        how = replace(self._how, options=point.options)
        if how.is_low or how.structure is not None or not how.complex_step:
            return None
        rng, worst, tensor = np.random.default_rng([how.seed, 14]), 0.0, ""
        with suppress(Exception):
            checked = self._subject(point)
            (upstream,) = upstreams_of(checked, how, 1)
            claims, oracle = checked.gradients(upstream), Oracle(checked, [upstream])
            for name, x in checked.tensors.items():
                direction = direction_in(x, rng)
                slope = oracle.complex_step(name, direction)
                near, _ = oracle.difference(name, direction, CENTRAL_H, {}, noise_too=False)
                apart = abs(float(np.sum(claims[name] * direction)) - slope.value[0]) / slope.reach[0]
                is_near = abs(near[0] - slope.value[0]) <= SAME * slope.reach[0]
                if claims[name].shape != x.shape or not (apart <= how.tolerance and is_near):
                    return None
                worst, tensor = max((worst, tensor), (float(apart), name))
            return Tried(AT_SIZES, where, RIGHT, tensor, worst)
        return None

    def _verdict(self, regime: str, where: str, point: NamedInputs, how: CheckOptions) -> Tried:
        how = replace(how, options=point.options)
        if regime == AT_SIZES and not how.is_low and sum(x.size for x in point.arrays.values()) > FEW:
            how = replace(how, elementwise=False)
        report = self._check(point.values, how)
        if how.is_low and regime != AT_SIZES:
            small = [row for row in report.rows if not _is_gross(row)]
            report = report.changed({r.tensor: {"verdict": UNCLEAR} for r in small if r.verdict == WRONG})
        for verdict in (WRONG, PROBLEM, UNCLEAR, KINK):
            rows = [row for row in report.rows if row.verdict == verdict]
            if verdict == PROBLEM and report.problems and not report.problems[0].startswith(("output", "reference")):
                return Tried(regime, where, PROBLEM, note=report.problems[0])
            if rows:
                row = max(rows, key=lambda row: np.nan_to_num(row.scaled_error, nan=np.inf))
                return Tried(regime, where, verdict, row.tensor, row.scaled_error, row.note)
        row = report.worst
        is_empty = all(row.verdict == NOTHING for row in report.rows)
        return Tried(regime, where, NOTHING if is_empty else RIGHT, row.tensor, row.scaled_error)

    def _smaller(self, point: NamedInputs, regime: str) -> NamedInputs:
        """The point, cut along its axes and with rounder numbers as long as it fails."""
        left = MOST_SHRINKS

        def fails(other: NamedInputs) -> bool:
            nonlocal left
            left -= 1
            return left >= 0 and self._tried(regime, "", other).fails

        shorter = True
        while shorter and left > 0:
            shorter = False
            for size in _cuts(point.arrays):
                other = point.at({name: _cut(point.arrays[name], name, size) for name, _ in size.axes})
                if fails(other):
                    point, shorter = other, True
                    break
        for digits in (0, 1, 2):
            rounder = {n: np.round(x, digits) for n, x in point.arrays.items() if x.dtype.kind == "f"}
            if fails(other := point.at(rounder)):
                return other
        return point


def _cuts(arrays: Tensors) -> Iterator[Size]:
    """Shorter sizes, the shortest first."""
    for n, axes in sorted(axes_by_length(arrays).items(), reverse=True):
        for shorter in dict.fromkeys((1, 2, n // 2, n - 1)):
            if 0 < shorter < n:
                yield Size("", tuple(axes), shorter)


def _cut(x: HostArray, name: str, size: Size) -> HostArray:
    return x[tuple(slice(size.length if (name, axis) in size.axes else None) for axis in range(x.ndim))]


def _precision(point: NamedInputs) -> str:
    return next((str(x.dtype) for x in point.arrays.values() if x.dtype.kind == "f"), "float64")


def _ignored(forward: Any, options: Named) -> tuple[int, ...]:
    """Ids that the forward leaves out, by an option or a default that is called pad or ignore."""
    known = {name: p.default for name, p in (parameters_of(forward) or {}).items()} | dict(options)
    return tuple(x for n, x in known.items() if ("pad" in n or "ignore" in n) and type(x) is int)


def _is_gross(row: Row) -> bool:
    """Whether a row of few digits tells of NaN, of very many roundings, or of a visible error and some roundings."""
    found = re.search(r"as if rounded (\S+) times", row.note)
    times = float(found[1]) if found else MANY
    return "not finite" in row.note or times > MANY or (row.scaled_error > VISIBLE and times > SOME)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else 'no message'}"


def _shown(point: NamedInputs) -> str:
    """The arrays of a point, or their shapes if they are large."""

    def one(x: HostArray) -> str:
        if x.size > MOST_SHOWN:
            return "×".join(map(str, x.shape))
        return " ".join(np.array2string(x, precision=4, separator=", ", max_line_width=10_000).split())

    return ", ".join(f"{name} = {one(x)}" for name, x in point.arrays.items())
