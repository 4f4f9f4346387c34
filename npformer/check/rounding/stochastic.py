"""Stochastic arithmetic: runs NumPy code with every operation moved by a rounding of another precision.

A result y becomes y·(1 + a·u·ξ), ξ uniform in [−1, 1], u the unit roundoff and a the operation's accuracy in roundings:
1 for arithmetic, 4 (two units in the last place) for functions that libraries and GPUs approximate. A product or sum y
of terms t_k moves by u·(Σt_k² + 2y²)^½: each term is rounded by itself, and so are the partial sums, which in a sum by
halves are y, y/2 twice, y/4 four times, …, y²·(1 + ½ + ¼ + …) = 2y². Of N terms in turn, in any order, they are on
average ΣS_k² = Σt_k²·((N + 1)/6 − 1/N) + y²·(N + 1)/3, and ξ is normal. Where sums are accumulated in few digits, y
moves by what all S_k lose, u·(ΣS_k²)^½, no step more than its own term. What is stored moves by up to half its spacing.
Nothing moves where nothing is rounded: max, sort, where, masks, integers, signs, powers of two. Real and imaginary
parts move apart, for a complex step. Inputs are exact, numbers that the precision can hold. Sources: Parker 1997,
"Monte Carlo Arithmetic", UCLA CSD-970002; Higham, "Accuracy and Stability of Numerical Algorithms", 4.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from npformer.check.oracles import COMPLEX_H
from npformer.check.rounding.formats import Format
from npformer.typing import Function, HostArray, HostArrays, Named, Shape

#: Roundings of a function that is approximated; of any other operation 1.
APPROXIMATED = 4.0
_APPROXIMATED = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "arctan",
    "arcsin", "arccos", "arcsinh", "arccosh", "arctanh", "power", "float_power", "logaddexp", "logaddexp2", "cbrt",
})  # fmt: skip
_ROUNDED = frozenset({"add", "subtract", "multiply", "divide", "sqrt", "square", "reciprocal", "hypot", "remainder"})
_PRODUCTS = frozenset({"matmul", "vecdot", "matvec", "vecmat"})
_PRODUCT_FUNCTIONS = frozenset({"dot", "vdot", "inner", "einsum", "tensordot"})


class Level(NamedTuple):
    """What one rounding amounts to, as unit roundoffs."""

    entry: float  # of a result, entry by entry
    product: float  # of the operands of a product
    together: float = 0.0  # one factor for a whole result, as a constant inside it has
    constant: float = 0.0  # of a constant that the precision cannot represent
    partial: float = 0.0  # of a partial sum, where sums are accumulated in few digits
    tiny: float = 0.0  # absolute: what the precision cannot represent next to 0
    stored: Format | None = None  # in which each result is stored, once it is computed
    function: float | None = None  # of functions that are approximated; None: APPROXIMATED of entry
    apart: bool = False  # whether the terms of a sum of two arrays are stored once more, as where it is multiplied out
    in_turn: float = 0.0  # of each partial sum, where sums and products add one term after the other; 0: by halves


class Rounding:
    """The roundings of one run; forward and backward have levels of their own. The same seed gives the same run."""

    def __init__(self, seed: Any, forward: Level, backward: Level) -> None:
        self._seed, self._forward, self._backward = seed, forward, backward
        self._rng = np.random.default_rng(seed)
        self.level: Level | None = None
        self.operations = 0  # that its arrays have been through

    def arrays(self, tensors: Mapping[Any, HostArray]) -> HostArrays:
        """The tensors, exact, as arrays whose operations are rounded."""
        return {name: self.of(x) for name, x in tensors.items()}

    def of(self, x: Any) -> _Rounded:
        """x, exact, as an array whose operations are rounded."""
        array = np.asarray(x).view(_Rounded)
        array.rounding = self
        return array

    @contextmanager
    def during(self, is_forward: bool) -> Iterator[None]:
        """Within this context operations are rounded as in a forward, which begins the run anew, or a backward."""
        before = self.level
        if is_forward:
            self._rng = np.random.default_rng(self._seed)
        self.level = self._forward if is_forward else self._backward
        try:
            yield
        finally:
            self.level = before

    def draw(self, shape: Shape) -> HostArray:
        """ξ, uniform in [−1, 1]."""
        return np.asarray(2 * self._rng.random(shape, dtype=np.float32) - 1, dtype=np.float64)

    def moved(self, y: Any, size: Any, factor: float, is_normal: bool = False, one: float = 1.0) -> Any:
        """y, in units of one, moved by factor·size·ξ and by what the level adds; size: of both parts if complex."""
        if np.iscomplexobj(y):
            slope = self.moved(np.imag(y), np.imag(size), factor, is_normal, COMPLEX_H)
            return self.moved(np.real(y), np.real(size), factor, is_normal) + 1j * slope
        level = self.level
        if level is None:
            return y
        y = np.asarray(y)
        finite = np.isfinite(y)  # infinity, as the score of a hidden key, is exact
        xi = self._rng.normal(size=y.shape) / 3**0.5 if is_normal else self.draw(y.shape)
        noise = factor * np.where(finite, size, 0) * xi
        if level.together:
            noise = noise + level.together * float(self.draw(())) * np.where(finite, y, 0)
        if level.tiny:
            noise = noise + np.where(y != 0, level.tiny, 0.0) * self.draw(y.shape)
        if level.stored:
            half = level.stored.spacing(np.where(finite, y, 0) / one) / 2 * one
            noise = noise + np.where(finite, np.minimum(half, np.abs(y)), 0) * self.draw(y.shape)
        return y + noise

    def constant(self, x: Any, is_divisor: bool) -> Any:
        """A constant, moved if the precision cannot represent it, or 1/x if x divides."""
        level = self.level
        if level is None or not level.constant or not (_is_constant(x) or _is_inexact(x)):
            return x
        mantissa = np.abs(np.frexp(np.real(x))[0])
        exact = mantissa == 0.5 if is_divisor else mantissa / level.constant % 1 == 0
        return x if np.all(exact) else np.where(exact, x, x * (1 + level.constant * self.draw(np.shape(x))))


class Phased:
    """A reference whose forward and backward run at the levels of a Rounding, if their arrays have one."""

    def __init__(self, target: Any) -> None:
        self.rounding: Rounding | None = None
        self.is_carried = True  # whether the last forward, and its backward, compute with arrays that are rounded
        forward, backward = target if isinstance(target, tuple) else (target.forward, target.backward)
        self.forward = self._within(forward, True)
        self.backward = self._within(backward, False)
        self.backend = getattr(target, "backend", None)
        self.named_parameters = getattr(target, "named_parameters", tuple)

    def run(self, rounding: Rounding | None, call: Callable[[], Any]) -> Any:
        """What a call returns with the roundings of a run."""
        self.rounding = rounding
        try:
            return call()
        finally:
            self.rounding = None

    def _within(self, function: Function, is_forward: bool) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if self.rounding is None:
                return function(*args, **options)
            before = self.rounding.operations
            for _, parameter in self.named_parameters() if is_forward else ():
                owner = getattr(parameter, "owner", parameter)
                owner.data = self.rounding.of(owner.data)
            with self.rounding.during(is_forward):
                value = function(*args, **options)
            results = value[0] if is_forward else value  # a cache may hold the inputs, whatever was done with them
            is_used = self.rounding.operations > before or any(isinstance(y, _Rounded) for y in _leaves(results))
            self.is_carried = is_used and (is_forward or self.is_carried)
            return value

        return call


class _Rounded(np.ndarray[Any, Any]):
    """An array whose operations are moved by its Rounding."""

    rounding: Rounding | None

    def __array_finalize__(self, parent: Any) -> None:
        self.rounding = getattr(parent, "rounding", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        rounding = _rounding_of((*inputs, *(out or ())))
        plain = [_plain(x) for x in inputs]
        is_called = method == "__call__" and ufunc.__name__ in _ROUNDED and any(map(_is_inexact, plain))
        if is_called and rounding is not None and rounding.level is not None:
            plain = [
                x if isinstance(inputs[i], _Rounded) else rounding.constant(x, ufunc.__name__ == "divide" and i == 1)
                for i, x in enumerate(plain)
            ]
        if out is not None:
            options["out"] = tuple(_plain(x) for x in out)
        y = getattr(ufunc, method)(*plain, **options)
        if rounding is None or rounding.level is None or method == "at" or not _is_inexact(y):
            return _kept(y, rounding) if out is None else _first(out)
        y = _result(rounding, ufunc.__name__, method, plain, y, options)
        if out is None:
            return _kept(y, rounding)
        for target, part in zip(options["out"], y if isinstance(y, tuple) else (y,), strict=True):
            target[...] = part
        return _first(out)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rounding = _rounding_of(_leaves((args, kwargs)))
        name, module = function.__name__, str(function.__module__)
        if rounding is None or rounding.level is None:
            return super().__array_function__(function, types, args, kwargs)
        if name in _PRODUCT_FUNCTIONS:
            plain = [_plain(x) for x in args]
            y = function(*plain, **kwargs)
            return _kept(_summed(rounding, lambda *parts: function(*parts, **kwargs), plain, y, "product"), rounding)
        y = super().__array_function__(function, types, args, kwargs)
        if module.startswith(("numpy.linalg", "numpy.fft")) and _is_inexact(y):
            y = rounding.moved(_plain(y), _plain(y), rounding.level.entry)
        return _kept(y, rounding)


def _result(rounding: Rounding, name: str, method: str, inputs: list[Any], y: Any, options: Named) -> Any:
    """The result of a ufunc, moved by what its operation rounds."""
    level = rounding.level
    assert level is not None
    if name in _PRODUCTS:
        function = lambda *parts: getattr(np, name)(*parts)  # noqa: E731
        return _summed(rounding, function, inputs, y, "product")
    if method == "reduce" and name == "add":
        x, *axis = inputs
        kept = {k: v for k, v in options.items() if k in ("axis", "keepdims")}
        if level.partial:
            return rounding.moved(y, _lost_by_partial_sums(x, axis, kept, level.partial), 1.0)
        return _summed(rounding, lambda part: np.add.reduce(part, *axis, **kept), [x], y, "entry")
    if name in _APPROXIMATED:
        return rounding.moved(y, y, APPROXIMATED * level.entry if level.function is None else level.function)
    if name in _ROUNDED and not (name in ("multiply", "divide") and any(map(_is_exact_factor, inputs))):
        if level.apart and name in ("add", "subtract") and all(map(_is_inexact, inputs)):
            y = y + sum(rounding.moved(x, x, 0.0) - x for x in inputs)
        return rounding.moved(y, y, level.entry)
    return y


def _lost_by_partial_sums(x: HostArray, axis: list[Any], options: Named, u: float) -> Any:
    """What a sum loses whose partial sums are rounded to u."""
    along = options.get("axis", axis[0] if axis else 0)
    whole = along is None or isinstance(along, tuple)
    x, along = (np.real(x).ravel(), 0) if whole else (np.real(x), along)
    terms, units = np.abs(x), u * np.abs(np.cumsum(x, axis=along))
    # a term below half a unit of its sum is lost, always, and such losses add up
    stuck = np.sum(np.where(terms < units, terms, 0), axis=along)
    size = np.sqrt(np.sum(np.minimum(units, terms) ** 2, axis=along)) + stuck
    return size if whole or not options.get("keepdims") else np.expand_dims(size, along)


def _summed(rounding: Rounding, function: Function, operands: list[Any], y: Any, which: str) -> Any:
    """A product or a sum y of terms, moved by what its terms and its partial sums round; which: the level of terms."""
    level = rounding.level
    assert level is not None
    u, of_terms, of_sum = getattr(level, which), 1.0, 2.0
    if level.in_turn:
        n = np.maximum(function(*[np.where(x != 0, 1.0, 0.0) if _is_inexact(x) else x for x in operands]), 1)
        u, of_terms, of_sum = level.in_turn, (u / level.in_turn) ** 2 + (n + 1) / 6 - 1 / n, (n + 1) / 3
    return rounding.moved(y, _size_of_terms(function, operands, y, of_terms, of_sum), u, bool(level.in_turn))


def _size_of_terms(function: Function, operands: list[Any], y: Any, of_terms: Any, of_sum: Any) -> Any:
    """(Σ of squared terms, and y²)^½ of a product y, each so many times, for both parts of a complex one."""
    reals, imaginary = ([np.square(part(x)) if _is_inexact(x) else x for x in operands] for part in (np.real, np.imag))
    real = np.sqrt(np.maximum(of_terms * function(*reals) + of_sum * np.square(np.real(y)), 0))
    if not np.iscomplexobj(y):
        return real
    mixed = of_sum * np.square(np.imag(y))
    for i, x in enumerate(operands):
        if np.iscomplexobj(x):
            mixed = mixed + of_terms * function(*reals[:i], imaginary[i], *reals[i + 1 :])
    return real + 1j * np.sqrt(np.maximum(mixed, 0))


def _is_constant(x: Any) -> bool:
    return isinstance(x, int | float | np.floating | np.integer) and not isinstance(x, bool)


def _is_exact_factor(x: Any) -> bool:
    """A power of two, a mask, or integers."""
    if _is_constant(x):
        return bool(x == 0 or abs(float(np.frexp(float(x))[0])) == 0.5)
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biu"


def _is_inexact(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.inexact) and x.dtype.kind in "fc"


def _plain(x: Any) -> Any:
    if isinstance(x, _Rounded):
        return x.view(np.ndarray)
    return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x


def _kept(y: Any, rounding: Rounding | None) -> Any:
    if type(y) in (tuple, list):
        return type(y)(_kept(part, rounding) for part in y)
    return rounding.of(y) if rounding is not None and _is_inexact(y) else y


def _first(out: tuple[Any, ...]) -> Any:
    return out[0] if len(out) == 1 else out


def _rounding_of(values: Any) -> Rounding | None:
    """The Rounding of an operation's arrays, which counts the operation."""
    rounding = next((x.rounding for x in values if isinstance(x, _Rounded)), None)
    if rounding is not None:
        rounding.operations += 1
    return rounding


def _leaves(x: Any) -> Iterator[Any]:
    x = list(x.values()) if isinstance(x, dict) else x
    if isinstance(x, list | tuple):
        for part in x:
            yield from _leaves(part)
    else:
        yield x
