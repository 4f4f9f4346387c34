"""The numbers of a derivation at one point, and derivatives measured there: by a change at a node of its graph.

A node is changed after its own line: what the later lines make of it counts, what it is made of does not. The witnesses
are those of a gradient check.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.derivations.grammar import Derivation, DerivationLine, Input
from npformer.check.fitness import fitness
from npformer.check.measures import largest, max_abs
from npformer.check.oracles import COMPLEX_H, Oracle, unit, units
from npformer.errors import DataError
from npformer.typing import HostArray, HostArrays, Named, Shape, Tensors, Values

#: Lengths of axes, for few letters and for many; those of the second point, and of the third.
_LENGTHS = (((3, 4, 5), (5, 3, 4), (4, 5, 3)), ((2, 3, 4, 5, 6, 7, 8), (3, 2, 5, 4, 7, 6, 8), (2, 4, 3, 6, 5, 8, 7)))
#: All that a line sees besides the derivation's names; NumPy imports parts of itself when they are first used.
_PARTIAL = re.compile(r"\bpartial\((\w+), (\w+)\)")
_NAMES = {"__builtins__": {"__import__": __import__}, "np": np}


class _Size(int):
    """A length. Its powers are floats: C ** C ** C ** C has no end as a whole number."""

    def __pow__(self, other: Any) -> Any:  # type: ignore[override]
        return float(self) ** other


class DerivationPoint:
    """Values of the forward, the gradients of its names, and how each line of it changes with what it uses."""

    def __init__(self, derivation: Derivation, number: int) -> None:
        self.derivation = derivation
        lengths = _LENGTHS[len(derivation.letters) > 3][number]
        sizes = map(_Size, itertools.chain(lengths, itertools.count(9)))
        self.sizes: dict[str, int] = dict(zip(derivation.letters, sizes, strict=False))
        rng = np.random.default_rng([number, 3])
        self.values: Values = dict(self.sizes)
        for each in derivation.inputs:
            self.values[each.name] = _drawn(each, self.sizes, rng)
        self._run(derivation.forward, self.values)
        for line in derivation.forward:
            if np.isnan(self.values[line.name]).any():
                raise self._error(line, "is no number: expected a formula for the numbers that are drawn; an input "
                                        "such as `x: (N, C) > 0` has positive ones")  # fmt: skip
        output = np.asarray(self.values[derivation.output])
        self.upstream = rng.normal(size=output.shape) if output.ndim else np.array(1.0)
        self._truths: HostArrays = {derivation.output: self.upstream}
        self._slopes: dict[tuple[str, str], HostArray] = {}

    def _run(self, lines: Sequence[DerivationLine], values: Values) -> None:
        for line in lines:
            try:
                value = self.evaluate(line, values)
                values[line.name] = value.copy() if isinstance(value, np.ndarray) else value  # one name, one array
            except Exception as error:
                raise self._error(line, f"cannot be computed: {self.why_not(line, values, error)}") from None

    def _error(self, line: DerivationLine, what: str) -> DataError:
        sizes = ", ".join(f"{letter} = {size}" for letter, size in self.sizes.items())
        return DataError(f"{self.derivation.path}, line {line.number}: {line.name} {what}\n  at the sizes {sizes}")

    def why_not(self, line: DerivationLine, values: Named, error: Exception) -> str:
        """Why a line cannot be computed: of arrays that do not fit, the shapes."""
        message = f"{type(error).__name__}: {error}"
        arrays = [name for name in sorted(line.uses) if np.ndim(values.get(name, 0))]
        if isinstance(error, ValueError) and arrays:
            shapes = [f"{name} is {self.named(np.shape(values[name]))}" for name in arrays]
            apart = re.findall(r"\(([\d,]+)\)", message)  # what NumPy says of parts of the line
            parts = [self.named(tuple(map(int, part.strip(",").split(",")))) for part in apart]
            message = f"the shapes {' and '.join(parts)}{' ' * bool(parts)}do not fit: {', '.join(shapes)}"
            if ".T" in ast.unparse(line.value) and max(np.ndim(values[name]) for name in arrays) > 2:
                message += "; .T turns all axes round, .mT the last two"
        return message + "; NumPy's are axis and keepdims" * ("keyword argument" in message)

    def named(self, shape: Shape) -> str:
        """A shape in the derivation's letters."""
        letters = {size: letter for letter, size in self.sizes.items()}
        return f"({', '.join(str(letters.get(n, n)) for n in shape)}{',' * (len(shape) == 1)})"

    def evaluate(self, line: DerivationLine, values: Named) -> Any:
        """A line's expression, of these values."""
        with np.errstate(all="ignore"):
            return eval(
                _code(_PARTIAL.sub(r"partial('\1', '\2')", ast.unparse(line.value))),
                {**_NAMES, "partial": self.partial},
                dict(values),
            )

    def truth(self, name: str) -> HostArray:
        """The derivative of the loss by a name: what a change there changes."""
        if name not in self._truths:
            output = self._as_function(self.derivation.output, name, self.after(name))
            self._truths[name] = measured(lambda x: np.sum(self.upstream * output(x)), self.number(name), ())
        return self._truths[name]

    def number(self, name: str) -> HostArray:
        """A value, as an array of floats. Raises DataError for whole numbers."""
        if any(each.name == name and each.kind == "whole" for each in self.derivation.inputs):
            raise DataError(f"{self.derivation.path}: {name} holds whole numbers and has no derivative: "
                            f"leave d{name} out")  # fmt: skip
        return np.asarray(self.values[name]).astype(float)

    @property
    def largest(self) -> float:
        """The largest entry of the gradients that were measured."""
        return largest(self._truths.values())

    def slope(self, a: str, b: str) -> HostArray:
        """∂a/∂b by a's own line, every other name held: (*shape of a, *shape of b)."""
        if (a, b) not in self._slopes:
            made = self._as_function(a, b, [self.derivation.line_of(a)])
            self._slopes[a, b] = measured(made, self.number(b), np.shape(self.values[a]))
        return self._slopes[a, b]

    def total(self, a: str, b: str) -> HostArray:
        """The derivative of a by b through every line between them, in the same shape."""
        return measured(self._as_function(a, b, self.after(b)), self.number(b), np.shape(self.values[a]))

    def after(self, name: str) -> list[DerivationLine]:
        """The forward's lines after that of a name."""
        at = self.derivation.nodes.index(name)
        return [line for line in self.derivation.forward if self.derivation.nodes.index(line.name) > at]

    def _as_function(self, a: str, b: str, lines: Sequence[DerivationLine]) -> Callable[[Any], Any]:
        """a as a function of b, by these lines."""

        def made(x: Any) -> Any:
            values = {**self.values, b: x}
            self._run(lines, values)
            return values[a]

        return made

    def way(self, name: str, user: str) -> HostArray:
        """What reaches a name from the loss through one line that uses it."""
        return np.tensordot(self.truth(user), self.slope(user, name), axes=np.ndim(self.values[user]))

    def partial(self, a: Any, b: Any) -> HostArray:
        """partial(a, b) in a formula, by names; or by their values, where a formula is tried with changes."""
        names = [x if isinstance(x, str) else next(n for n, value in self.values.items() if value is x) for x in (a, b)]
        return aligned(self.slope(*names), np.shape(self.values[names[0]]))


def aligned(slope: HostArray, shape: Shape, own: bool = False) -> HostArray:
    """∂a/∂b as a factor that broadcasts with a and b, where each entry depends on the entry in its own place alone.

    slope: (*shape of a, *shape of b), returned as it is where entries depend on others, as in a matrix product; own
    True: the entries in their own places of that, too.
    """
    of_b = slope.shape[len(shape) :]
    try:
        places = np.indices(np.broadcast_shapes(shape, of_b))
    except ValueError:
        return slope
    diagonal = (*_places(places, shape), *_places(places, of_b))
    rest = slope.copy()
    rest[diagonal] = 0
    return np.array(slope[diagonal]) if own or max_abs(rest) == 0 else slope


def _places(places: HostArray, shape: Shape) -> list[HostArray]:
    """The index into an array of this shape at each place of a larger one."""
    own = places[len(places) - len(shape) :]
    return [at if length > 1 else np.zeros_like(at) for at, length in zip(own, shape, strict=True)]


def points_of(derivation: Derivation) -> list[DerivationPoint]:
    """Points at several sizes; only the first if the forward runs at no others. Raises DataError if it never runs."""
    points = [DerivationPoint(derivation, 0)]
    for number in range(1, len(_LENGTHS[0])):
        with contextlib.suppress(DataError):
            points.append(DerivationPoint(derivation, number))
    return points


@cache
def _code(text: str) -> CodeType:
    return compile(text, "<a line>", "eval")


def _drawn(each: Input, sizes: Mapping[str, int], rng: np.random.Generator) -> HostArray:
    sides = (*each.shape, each.below or ast.Constant(0))
    *shape, below = (int(eval(_code(ast.unparse(side)), {}, dict(sizes))) for side in sides)
    if each.kind == "whole":
        return rng.integers(below, size=shape)
    drawn: HostArray = np.asarray(rng.normal(size=shape))
    return np.abs(drawn) + 0.2 if each.kind == "positive" else drawn


class _Node(NamedTuple):
    """A function of one array, as the witnesses of a gradient check ask it."""

    f: Callable[[Any], Any]
    tensors: HostArrays

    def outputs(self, replaced: Tensors) -> tuple[HostArray, ...]:
        return (np.asarray(self.f(replaced.get("x", self.tensors["x"]))),)


def measured(f: Callable[[Any], Any], x: HostArray, shape: Shape) -> HostArray:
    """The derivative of f, of a shape, by each entry of x: (*shape, *x.shape)."""
    node: Any = _Node(f, {"x": x})
    upstream = np.asarray(np.random.default_rng(5).normal(size=shape))
    with np.errstate(all="ignore"):
        if fitness(node, [(upstream,)], 0).is_fit:
            steps = [np.imag(f(x + 1j * COMPLEX_H * direction)) / COMPLEX_H for _, direction in units(x.shape)]
            return np.stack(steps, axis=-1).reshape((*shape, *x.shape))
        oracle = Oracle(node, [(unit(shape, index),) for index in np.ndindex(shape)], use_complex=False)
        return oracle.evidence("x").truth.reshape((*shape, *x.shape))
