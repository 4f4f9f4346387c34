"""What a backward owes beside right numbers: each property once, as equations between runs of a Subject.

    determinism      the same inputs give the same outputs, and the same gradients
    no-mutation      inputs and upstream gradient are unchanged afterwards; so are outputs and parameters
    used-cache       a second backward with the same cache gives the same gradients; a layer refuses it
    linear-backward  backward is a linear map of dy: B(p + q) = B(p) + B(q), also with rows of 0, B(c·p) = c·B(p)
    layout           a dy with gaps, in Fortran order or broadcast gives the same result as in C order
    accumulation     backward adds to the gradients of parameters
    reuse            a second forward changes nothing of the first one's backward
    shape-and-dtype  a gradient has the shape and dtype of what it is of, and is finite

``gradcheck`` asks strangers' code for the first five, within the rounding of its precision (``behaviour.py``).
``certify`` asks layers for all but the layout, strictly: bit for bit where the same is computed in the same order, else
to 1e-11 of the largest entry. The judge of kernels asks for what shows numbers that no backward made.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Pair
from npformer.check.checkable import Checkable, unpacked
from npformer.check.inputs import as_tuple, host_copies, is_array
from npformer.check.measures import NEGLIGIBLE, U, largest, max_abs, with_gaps, worst_at
from npformer.check.subject import NOTHING_REPLACED, BackwardFailed, Subject, Upstream, make_read_only
from npformer.errors import CacheUsedError
from npformer.functional import AttentionMask
from npformer.typing import HostArray, HostArrays, Named, Tensors, Values

#: By which a dy is multiplied: powers of two, which round nothing; of smaller range in float16, known by its roundoff.
FACTORS, FACTORS_IN_FLOAT16, IN_FLOAT16 = (2.0**20, 2.0**-20), (2.0**4, 2.0**-4), (2.0**-12, 2.0**-10)
#: Roundings of a dy that is multiplied: a routine that has x and dy in one matrix, as the adjoint of a matrix
#: exponential, loses as many digits of x as a factor adds to dy.
MIXED = 4096

#: Two float64 results differ if their error relative to the largest entry (``verdict.py``, first rule) is above this.
ROUNDING = 1e-11


class DoesNotApply(Exception):
    """Raised inside a check that does not apply to its target; the message is the reason."""


class Violation(NamedTuple):
    """A failed check: a tensor, the index of its worst element, and the two numbers that should agree."""

    where: str
    place: tuple[int, ...] = ()
    expected: float = math.nan
    got: float = math.nan
    note: str = ""  # a text instead of the numbers

    def __str__(self) -> str:
        if self.note:
            return ": ".join(filter(None, (self.where, self.note)))
        element = f"{self.where}[{', '.join(map(str, self.place))}]" if self.place else self.where
        return f"{element}: expected {self.expected:.10g}, got {self.got:.10g}"


class Equation(NamedTuple):
    """Two sets of arrays, by name, that are equal if what is claimed holds.

    is_exact: the same numbers in the same order, for runs of the same shapes: with most OpenBLAS kernels the last bits
    of a product's row depend on the number of other rows, so runs of different shapes agree only to rounding.
    """

    expected: Tensors
    got: Tensors
    label: str = "gradient of {}"  # of a name
    is_exact: bool = False
    problem: str = ""  # what gradcheck says if not, with the {worst} tensor, {off} of its size, or {every} that differs
    upstream: Sequence[HostArray] = ()  # the gradients of outputs that gradients come from
    parts: Sequence[Tensors] = ()  # gradients of which these are the sums: their entries may be larger
    is_sum: bool = False  # in few digits each part rounds by itself
    roundings: float = 0.0  # of x that the claim allows
    floor: float = 0.0  # a size beside which an entry may cancel to rounding

    @property
    def violation(self) -> Violation | None:
        """The worst element of the first tensor that differs, if any. In an exact one NaN is nothing, and 0 is −0.

        Else max|got − expected| is divided by max(max|expected|, 1e-3 · the largest entry of all tensors, 1e-4 · that
        of the upstream gradient): where saturated weights pass almost nothing, only the rounding of its terms remains.
        """
        floor = max(NEGLIGIBLE * largest(self.expected.values()), 1e-4 * largest(self.upstream))
        limit = max(ROUNDING, self.roundings * U)
        if self.expected.keys() != self.got.keys():
            return Violation("results", note=f"expected {', '.join(self.expected)}, got {', '.join(self.got)}")
        for name, value in self.expected.items():
            where, got = self.label.format(name), self.got[name]
            if value.shape != got.shape:
                return Violation(where, note=f"expected shape {value.shape}, got {got.shape}")
            error = np.asarray(~(value == got)) if self.is_exact else np.abs(got - value)
            allowed = 0.0 if self.is_exact else limit * max(max_abs(value), floor)
            if not np.all(error <= allowed):  # of NaN, too
                index = worst_at(error)
                return Violation(where, index, float(value[index]), float(got[index]))
        return None


#: What is checked one after the other, since each costs runs; what fails in a form of its own is a violation.
Equations = Iterator[Equation | Violation]


class Asked(NamedTuple):
    """A subject that is asked at its point, with upstream gradients, and the gradients of the first of them."""

    subject: Subject
    upstreams: Sequence[Upstream]
    gradients: HostArrays
    u: float = U
    strict: bool = False  # what npformer's own layers promise
    other: Named = NOTHING_REPLACED  # other inputs of the same shapes

    @property
    def dy(self) -> Upstream:
        """The first upstream gradient."""
        return self.upstreams[0]


@dataclass(frozen=True)
class Property:
    """A property, its meaning in one line, and its equations."""

    name: str
    meaning: str
    asked: Callable[[Asked], Equations]


#: Every property by its name.
PROPERTIES: dict[str, Property] = {}


def _property(name: str, meaning: str) -> Callable[[Callable[[Asked], Equations]], Property]:
    def named(asked: Callable[[Asked], Equations]) -> Property:
        PROPERTIES[name] = Property(name, meaning, asked)
        return PROPERTIES[name]

    return named


@_property("determinism", "two runs on the same inputs give the same bits")
def deterministic(asked: Asked) -> Equations:
    """With a random key, too: randomness is an argument. Gradients of strangers' code: ``behaviour.Repeats``."""
    one, two = ({str(i): y for i, y in enumerate(asked.subject.outputs({}))} for _ in range(2))
    text = "forward is not deterministic: two calls at the same inputs differ by {off:.1e} of the largest output; "
    yield Equation(one, two, "output {}", True, f"{text}fix its seed, or pass what it draws as an input")
    yield Equation(asked.gradients, asked.subject.gradients(asked.dy), is_exact=True)


@_property("linear-backward", "backward is linear in the upstream gradient")
def linear(asked: Asked) -> Equations:
    """A sum of two dy, one with rows of 0 and the rest of it, a large one and a tiny one."""
    (p, *others), whole, gradients = asked.upstreams, asked.gradients, asked.subject.gradients
    if not whole:
        raise DoesNotApply("it has no gradients: no float input and no parameter")

    def sums(whole: Tensors, what: str, *parts: Tensors) -> Equation:
        both = {name: np.sum([part[name] for part in parts], axis=0) for name in whole}
        return Equation(whole, both, problem=f"{_LINEAR}{what} by {{off:.1e}} of its size", parts=parts, is_sum=True)

    for q in others[:1]:
        of_both = gradients(tuple(map(np.add, p, q)))
        yield sums(of_both, "p + q differs from those for p and q together", whole, gradients(q))
    for what, axis in (("rows", 0), ("columns", -1)):
        halves = [gradients(tuple(_with_0(r, k, axis) for r in p)) for k in (0, 1)]
        yield sums(whole, f"their sum differs from those for two dy with {what} of 0", *halves)
    for c in FACTORS if not IN_FLOAT16[0] < asked.u < IN_FLOAT16[1] else FACTORS_IN_FLOAT16:
        scaled = {name: g / c for name, g in gradients(tuple(c * r for r in p)).items()}
        text = f"{_LINEAR}{c:g}·dy differs from {c:g} times that for dy by {{off:.1e}} of its size"
        yield Equation(whole, scaled, problem=text, roundings=MIXED * c)


_LINEAR = "backward is not linear in dy: its gradient of {worst} for "


def _with_0(r: HostArray, first: int, axis: int) -> HostArray:
    """A copy of r in which every second row or column is 0; of a single number, and of one row, all or nothing is."""
    there = np.array(r)
    if there.ndim:
        np.moveaxis(there, axis, 0)[first::2] = 0
    return there if there.ndim or first else 0 * there


@_property("accumulation", "backward adds to the gradients of parameters, it does not assign")
def accumulates(asked: Asked) -> Equations:
    """Start from random gradients G: two forwards and backwards leave G + 2g, and the same dx as from zero."""
    s, rng = asked.subject, np.random.default_rng([0, 6])
    if not s.parameters:
        raise DoesNotApply("it has no parameters")
    with s.at():
        for owner in s.owners.values():
            owner.grad = s.device.array(rng.normal(size=owner.data.shape), s.dtype)
        start, got = s.accumulated, [s.pulled(s.forward(), asked.dy, adds=True) for _ in range(2)]
    for times, gradients in enumerate(got, 1):
        added = {name: x + times * asked.gradients[name] for name, x in start.items()}
        label = f"gradient of {{}} after {times} backward of gradients that were not 0"
        yield Equation(asked.gradients | added, gradients, label)


@_property("no-mutation", "inputs, upstream gradient, outputs and parameters are left as they are")
def pure(asked: Asked) -> Equations:
    """Inputs and upstream go in read-only (on NumPy) where the strict rule holds; afterwards every bit is compared."""
    s = asked.subject
    names = None if asked.strict else s.inputs.tensors.keys() | s.inputs.fixed.keys()
    given = _given(s, *s.placed({}), names)
    with s.at():
        call = s.forward(frozen=asked.strict)
        dy = s.upstream(call.y, asked.dy)
        if asked.strict:
            make_read_only(as_tuple(dy))
        before = [_copies(s, dy), _copies(s, call.y)]
        s.backward(dy, call.cache)
        after = [_copies(s, dy), _copies(s, call.y)]
        given_after = _given(s, call.inputs, call.options, names)
        parameters = {name: np.array(s.device.host(p.data)) for name, p in s.parameters.items()}
    text = "forward or backward changes its input {every}; work on a copy"
    yield Equation(given, given_after, "input {}", True, text)
    text = "backward changes dy, the upstream gradient, which other code still needs; work on a copy"
    yield Equation(before[0], after[0], "upstream gradient {}", True, text)
    if asked.strict:
        yield Equation(before[1], after[1], "output {}", True)
        yield Equation({name: s.tensors[name] for name in parameters}, parameters, "parameter {}", True)


def _copies(s: Subject, y: Any) -> HostArrays:
    """Copies of the outputs, or of their gradients, by their numbers."""
    return {str(i): part for i, part in enumerate(host_copies(y, s.device))}


def _given(s: Subject, inputs: list[Any], options: Values, names: set[str] | None) -> HostArrays:
    """Copies of the arrays of these names that a forward may read but not write; None: all, those of masks too."""
    every = dict(s.inputs.flat(inputs)) | unpacked(options)
    every |= {f"{name}.key_visible": x.key_visible for name, x in every.items() if isinstance(x, AttentionMask)}
    wanted = {name: x for name, x in every.items() if is_array(x) and (names is None or name in names)}
    return {name: np.array(s.device.host(x)) for name, x in wanted.items()}


@_property("used-cache", "a layer's cache works once and is then refused; a pair's gives the same bits again")
def cache_again(asked: Asked) -> Equations:
    """Activations are freed as a layer's backward runs, so a second one would use incomplete data."""
    s, again = asked.subject, "a second backward with the same cache"
    is_layer = not isinstance(s.target, Pair)
    if is_layer and not asked.strict and not isinstance(s.target, Checkable):
        return
    with s.at():
        call = s.forward()
        first = s.pulled(call, asked.dy)
        try:
            second = s.pulled(call, asked.dy)
        except BackwardFailed as failed:
            error, kind = failed.error, f"{type(failed.error).__name__}: {failed.error}"
            if asked.strict and is_layer and not isinstance(error, CacheUsedError):
                yield Violation("second backward", note=f"expected CacheUsedError, got {kind}")
            elif not is_layer or (not asked.strict and "inplace operation" in kind):  # others may free their caches
                yield Violation("", note=f"{again} fails: {kind}")
            return
    if asked.strict and is_layer:
        yield Violation("second backward", note="expected CacheUsedError, got gradients; keep caches in a CacheStack")
    cause = ": backward changes its cache" + " or draws random numbers anew" * is_layer
    if not is_layer:
        is_same = all(np.array_equal(x, second[name]) for name, x in first.items())
        cause *= not is_same and _changes_cache(s, asked.dy)
    text = f"{again} gives another gradient of {{worst}} ({{off:.1e}} of its size away){cause}"
    yield Equation(first, second, is_exact=asked.strict, problem=text)


def _changes_cache(pair: Subject, upstream: Upstream) -> bool:
    """Whether one backward is seen to change a fresh cache; False if that cannot be pickled."""
    dy, cache = pair.call(upstream)
    with suppress(Exception):
        before = pickle.dumps(cache)
        pair.target.backward(dy, cache)
        return pickle.dumps(cache) != before
    return False


@_property("reuse", "used at two places, the second forward does not disturb the first one's backward")
def reusable(asked: Asked) -> Equations:
    """Forward A, forward B, then both backwards, in either order: the gradients of A and B run alone, and their sum."""
    s, (p, q), a = asked.subject, asked.upstreams[:2], asked.gradients  # equal ones would hide a confusion
    if not asked.other:
        raise DoesNotApply("it has no input that could be another one at the second place")
    b = s.gradients(q, asked.other)
    for order in (1, -1):
        equations = list[Equation]()
        with s.at():
            s.zero_gradients()
            first = s.forward()
            kept = _copies(s, first.y)
            calls = [("A", first, p, a), ("B", s.forward(asked.other), q, b)]
            equations.append(Equation(kept, _copies(s, first.y), "output {}", True))
            for use, call, dy, alone in calls[::order]:
                got = s.pulled(call, dy, adds=True)
                dx = {name: g for name, g in got.items() if name not in s.parameters}
                expected = {name: alone[name] for name in dx}
                equations.append(Equation(expected, dx, f"gradient of {{}}, use {use}", True))
            equations.append(Equation({name: a[name] + b[name] for name in s.parameters}, s.accumulated))
        yield from equations


@_property("shape-and-dtype", "each float input and parameter has one gradient, of its shape and dtype, and finite")
def fitting(asked: Asked) -> Equations:
    """The number of gradients, their shapes, float64 for float64, and no NaN or infinity."""
    s = asked.subject
    if not s.tensors:
        raise DoesNotApply("it has no float input and no parameter")
    for name, x in s.tensors.items():
        gradient = asked.gradients[name]
        if name in s.inputs.none or (gradient.shape, gradient.dtype) != (x.shape, s.dtype):
            got = "None" if name in s.inputs.none else f"{gradient.shape} {gradient.dtype}"
            yield Violation(f"gradient of {name}", note=f"expected {x.shape} {s.dtype}, got {got}")
        elif not np.all(np.isfinite(gradient)):
            yield Violation(f"gradient of {name}", note="expected finite numbers, got NaN or infinity")


@_property("layout", "a dy with gaps, in Fortran order or broadcast gives the same result as in C order")
def any_layout(asked: Asked) -> Equations:
    """Of dy alone; inputs keep the layout in which they were given."""
    s, dy = asked.subject, asked.dy
    thin = (np.asarray(r[:1]) if r.ndim else r for r in dy)
    broadcast = tuple(np.broadcast_to(part, r.shape) for part, r in zip(thin, dy, strict=True))
    layouts = {
        "with gaps between its elements (not contiguous)": tuple(map(with_gaps, dy)),
        "in Fortran order, as a transposed array is": tuple(np.array(r, order="F") for r in dy),
        "that is broadcast (stride 0, read-only)": broadcast,
    }
    for what, laid in layouts.items():
        expected, floor = asked.gradients, 0.0
        if laid is broadcast:
            expected = s.gradients(tuple(map(np.array, broadcast)))
            floor = largest(asked.gradients.values())  # equal rows may cancel to 0 except for rounding
        try:
            got = s.gradients(laid)
        except BackwardFailed as failed:
            yield Violation("", note=f"backward fails for a dy {what}: {type(failed.error).__name__}: {failed.error}")
            return
        text = f"backward gives another gradient of {{worst}} for a dy {what}, {{off:.1e}} of its size away"
        yield Equation(expected, got, problem=text, floor=floor)
