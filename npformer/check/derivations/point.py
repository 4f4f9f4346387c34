"""The numbers of a derivation at one point, and derivatives measured there: by a change at a node of its graph.

A node is changed after its own line: what the later lines make of it counts, what it is made of does not. Complex steps
measure it, and differences along a few directions confirm them; where they do not agree, differences take over.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from npformer.check.derivations.grammar import Derivation, Line
from npformer.check.measures import largest, max_abs
from npformer.errors import DataError
from npformer.typing import HostArray, HostArrays, Shape

#: Lengths of axes, for few letters and for many; those of the second point, and of the third.
_LENGTHS = (((3, 4, 5), (5, 3, 4), (4, 5, 3)), ((2, 3, 4, 5, 6, 7, 8), (3, 2, 5, 4, 7, 6, 8), (2, 4, 3, 6, 5, 8, 7)))
COMPLEX_H, CENTRAL_H = 1e-30, 1e-4
#: Relative: complex step and differences agree. How many directions confirm them.
SAME, DIRECTIONS = 1e-6, 2
POINTS = 3
#: All that a line sees besides the derivation's names; NumPy imports parts of itself when they are first used.
_NAMES = {"__builtins__": {"__import__": __import__}, "np": np}


class Point:
    """Values of the forward, the gradients of its names, and how each line of it changes with what it uses."""

    def __init__(self, derivation: Derivation, number: int) -> None:
        self.derivation = derivation
        lengths = _LENGTHS[len(derivation.letters) > 3][number]
        self.sizes = dict(zip(derivation.letters, itertools.chain(lengths, itertools.count(9)), strict=False))
        rng = np.random.default_rng([number, 3])
        self.values: dict[str, Any] = dict(self.sizes)
        for each in derivation.inputs:
            self.values[each.name] = _drawn(each, self.sizes, rng)
        self._run(derivation.forward, self.values)
        output = np.asarray(self.values[derivation.output])
        self.upstream = rng.normal(size=output.shape) if output.ndim else np.array(1.0)
        self._truths: HostArrays = {derivation.output: self.upstream}
        self._slopes: dict[tuple[str, str], HostArray] = {}

    def _run(self, lines: Sequence[Line], values: dict[str, Any]) -> None:
        for line in lines:
            try:
                value = self.evaluate(line, values)
                values[line.name] = value.copy() if isinstance(value, np.ndarray) else value  # one name, one array
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise DataError(f"{self.derivation.path}, line {line.number}: {line.name} cannot be computed: {what}"
                                f"\n  at the sizes {self.named_sizes()}") from None  # fmt: skip

    def named_sizes(self) -> str:
        return ", ".join(f"{letter} = {size}" for letter, size in self.sizes.items())

    def evaluate(self, line: Line, values: Mapping[str, Any]) -> Any:
        """A line's expression, of these values."""
        with np.errstate(all="ignore"):
            return eval(_code(line), {**_NAMES, "partial": self.partial}, dict(values))

    def truth(self, name: str) -> HostArray:
        """The derivative of the loss by a name: what a change there changes."""
        if name not in self._truths:
            names = self.derivation.nodes
            later = [line for line in self.derivation.forward if names.index(line.name) > names.index(name)]

            def loss(x: Any) -> Any:
                values = {**self.values, name: x}
                self._run(later, values)
                return np.sum(self.upstream * values[self.derivation.output])

            self._truths[name] = _measured(loss, self.number(name), ())
        return self._truths[name]

    def number(self, name: str) -> HostArray:
        """A value, as an array of floats. Raises DataError for whole numbers."""
        value = np.asarray(self.values[name])
        if any(each.name == name and each.kind == "whole" for each in self.derivation.inputs):
            raise DataError(f"{self.derivation.path}: {name} holds whole numbers and has no derivative d{name}")
        return value.astype(float)

    @property
    def largest(self) -> float:
        """The largest entry of the gradients that were measured."""
        return largest(self._truths.values())

    def slope(self, a: str, b: str) -> HostArray:
        """∂a/∂b by a's own line, every other name held: (*shape of a, *shape of b)."""
        if (a, b) not in self._slopes:
            line = self.derivation.line_of(a)
            x = self.number(b)
            shape = np.shape(self.values[a])
            self._slopes[a, b] = _measured(lambda x: self.evaluate(line, {**self.values, b: x}), x, shape)
        return self._slopes[a, b]

    def total(self, a: str, b: str) -> HostArray:
        """The derivative of a by b through every line between them, in the same shape."""
        names = self.derivation.nodes
        between = [line for line in self.derivation.forward if names.index(b) < names.index(line.name)]

        def made(x: Any) -> Any:
            values = {**self.values, b: x}
            self._run(between, values)
            return values[a]

        return _measured(made, self.number(b), np.shape(self.values[a]))

    def way(self, name: str, user: str) -> HostArray:
        """What reaches a name from the loss through one line that uses it."""
        return np.tensordot(self.truth(user), self.slope(user, name), axes=np.ndim(self.values[user]))

    def partial(self, a: Any, b: Any) -> HostArray:
        """partial(a, b) in a formula: names are known by their values."""
        names = [next(name for name, value in self.values.items() if value is x) for x in (a, b)]
        return aligned(self.slope(*names), np.shape(a))


def aligned(slope: HostArray, shape: Shape) -> HostArray:
    """∂a/∂b as a factor that broadcasts with a and b, where each entry depends on the entry in its own place alone.

    slope: (*shape of a, *shape of b), returned as it is where entries depend on others, as in a matrix product.
    """
    of_b = slope.shape[len(shape) :]
    try:
        both = np.broadcast_shapes(shape, of_b)
    except ValueError:
        return slope
    places = np.indices(both)
    own = [_places(places, part) for part in (shape, of_b)]
    factor = np.array(slope[(*own[0], *own[1])])
    rest = slope.copy()
    rest[(*own[0], *own[1])] = 0
    return factor if max_abs(rest) == 0 else slope


def _places(places: HostArray, shape: Shape) -> list[HostArray]:
    """The index into an array of this shape at each place of a larger one."""
    own = places[len(places) - len(shape) :]
    return [at if length > 1 else np.zeros_like(at) for at, length in zip(own, shape, strict=True)]


def points_of(derivation: Derivation) -> list[Point]:
    """Points at several sizes; only the first if the forward runs at no others. Raises DataError if it never runs."""
    points = [Point(derivation, 0)]
    for number in range(1, POINTS):
        try:
            points.append(Point(derivation, number))
        except DataError:
            continue
    return points


@cache
def _code_of(text: str) -> CodeType:
    return compile(text, "<a line>", "eval")


def _code(line: Line) -> CodeType:
    return _code_of(ast.unparse(line.value))


def _drawn(each: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> HostArray:
    def size(node: ast.expr) -> int:
        return int(eval(compile(ast.Expression(node), "<a size>", "eval"), {**_NAMES}, dict(sizes)))

    shape = tuple(map(size, each.shape))
    if each.kind == "whole":
        return rng.integers(size(each.below), size=shape)
    drawn: HostArray = np.asarray(rng.normal(size=shape))
    return np.abs(drawn) + 0.2 if each.kind == "positive" else drawn


def _measured(f: Callable[[Any], Any], x: HostArray, shape: Shape) -> HostArray:
    """The derivative of f by each entry of x: (*shape, *x.shape)."""
    rng = np.random.default_rng(5)

    def steps(by: Callable[[HostArray], Any]) -> HostArray:
        slopes: HostArray = np.zeros((*shape, *x.shape))
        for index in np.ndindex(x.shape):
            unit = np.zeros(x.shape)
            unit[index] = 1
            slopes[(..., *index)] = by(unit)
        return slopes

    try:
        found = steps(lambda unit: np.imag(f(x + 1j * COMPLEX_H * unit)) / COMPLEX_H)
        for _ in range(DIRECTIONS):
            direction = np.asarray(rng.normal(size=x.shape))
            along = np.tensordot(found, direction, axes=x.ndim)
            if not max_abs(_difference(f, x, direction) - along) <= SAME * max(max_abs(found), max_abs(along)):
                raise ValueError("the forward is not analytic")
        return found
    except (TypeError, ValueError):
        return steps(lambda unit: _difference(f, x, unit))


def _difference(f: Callable[[Any], Any], x: HostArray, direction: HostArray) -> HostArray:
    """Richardson's extrapolation of central differences."""
    near, far = (np.asarray(f(x + h * direction) - f(x - h * direction)) / (2 * h) for h in (CENTRAL_H, 2 * CENTRAL_H))
    return np.asarray((4 * near - far) / 3)
