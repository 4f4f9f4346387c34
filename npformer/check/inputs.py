"""A target's inputs, leaf by leaf: which ones are checked, which are passed on, and their gradients.

An input is a float array, which is checked; a list, tuple or dict of inputs, whose arrays are checked one by
one as ``name[0]`` or ``name['W']``; or anything else, which is passed on. A Python float is checked if backward
returns a gradient for it, a ConstantInput never. Complex arrays are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.check.checkable import ConstantInput, is_inexact, is_of_layers, parameters_of
from npformer.check.measures import with_gaps
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import AttentionMask
from npformer.functional.arrays import namespace
from npformer.typing import Array, Function, HostArray, HostArrays, Named, Values


class Leaf(NamedTuple):
    """One value in the inputs, and its place."""

    name: str
    value: Any


class _Input(NamedTuple):
    """One input, and all values in it."""

    name: str
    value: Any
    leaves: list[Leaf]


class Inputs:
    """Positional inputs of a forward, by name; dtype: of float arrays."""

    def __init__(
        self,
        forward: Function,
        inputs: Sequence[Any],
        device: Device,
        names: Sequence[str] | None,
        taken: Container[str],
        dtype: str,
    ) -> None:
        self._device, self._dtype = device, dtype
        plain_names = list(names) if names is not None else parameter_names(forward, len(inputs))
        if len(plain_names) != len(inputs) or len(set(plain_names)) != len(plain_names):
            raise ConfigError(
                f"names: expected {len(inputs)} different names, one for each input, got {', '.join(plain_names)}"
            )
        self.all_names = [f"input {name}" if name in taken else name for name in plain_names]
        self._inputs = [_Input(n, x, list(leaves_of(n, x))) for n, x in zip(self.all_names, inputs, strict=True)]
        self._leaves = [leaf for one in self._inputs for leaf in one.leaves]
        self.fixed = {n: np.array(x) for n, x in self._leaves if isinstance(x, ConstantInput)}
        floats = [leaf for leaf in self._leaves if is_inexact(leaf.value) and leaf.name not in self.fixed]
        self.tensors = {leaf.name: host64(leaf.value, device, leaf.name) for leaf in floats}
        self.none: set[str] = set()  # tensors for which the last backward returned None
        if not self.tensors and not taken:
            self._check_numbers()

    @property
    def unchecked(self) -> list[str]:
        """The inputs that are passed on unchecked, with their types; None and strings are left out."""
        return [
            f"{leaf.name} ({_kind(leaf.value)})"
            for leaf in self._leaves
            if leaf.name not in self.tensors and not isinstance(leaf.value, str | None)
        ]

    def placed(self, replaced: Named) -> list[Any]:
        """The inputs on the device, in new memory, some leaves replaced."""
        return self.mapped(lambda leaf: self._place(leaf, replaced))

    def mapped(self, change: Callable[[Leaf], Any]) -> list[Any]:
        """The inputs with other leaves."""
        return [rebuilt(one.value, iter([change(leaf) for leaf in one.leaves])) for one in self._inputs]

    @property
    def values(self) -> Values:
        """Each leaf's value by its name, float64 if it is checked."""
        return {leaf.name: self.tensors.get(leaf.name, leaf.value) for leaf in self._leaves}

    def _place(self, leaf: Leaf, replaced: Named) -> Any:
        name = leaf.name
        known = self.tensors if name in self.tensors else self.fixed
        if name not in known:
            return place(replaced.get(name, leaf.value), self._device)
        value: Any = replaced[name] if name in replaced else known[name]
        if type(leaf.value) is float:
            return np.asarray(value).item()
        value = value if isinstance(value, np.ndarray) else np.asarray(value)  # arithmetic makes scalars of shape ()
        if type(value) is not np.ndarray:
            return value  # it records the calls made with it, see fitness.py
        dtype = self._dtype if not np.iscomplexobj(value) else "complex64" if self._dtype == "float32" else "complex128"
        if dtype == "float16":
            return value.astype(np.float16)
        placed = self._device.array(value, dtype)
        if (
            not isinstance(placed, np.ndarray)
            or not isinstance(leaf.value, np.ndarray)
            or leaf.value.flags.c_contiguous
        ):
            return placed
        return with_gaps(placed)  # non-contiguous inputs are checked as such

    def flat(self, placed: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """(name, value) of each leaf in what was placed."""
        for one, value in zip(self._inputs, placed, strict=True):
            yield from _along(one.name, one.value, value)

    def named(self, returned: Any) -> HostArrays:
        """A backward's gradients, by tensor; None counts as 0. Raises ShapeError if their number does not fit."""
        if isinstance(returned, dict) and returned and set(returned) <= set(self.all_names):
            returned = tuple(returned.get(name) for name in self.all_names)
        gradients = () if returned is None and len(self.tensors) != 1 else as_tuple(returned)
        meant = [one.name for one in self._inputs if self._has_tensor(one)]
        if len(gradients) != len(meant):
            meant = self._other_count(gradients, meant)
        by_input = dict(zip(meant, gradients, strict=True))
        self._check_numbers(self._answered(by_input))
        inputs = [(n, x) for n, x, _ in self._inputs if n in by_input]
        by_leaf = {n: g for name, x in inputs for n, g in _along(name, x, by_input[name]) if n in self.tensors}
        self.none = {name for name, gradient in by_leaf.items() if gradient is None}
        zeros = {name: np.zeros(self.tensors[name].shape) for name in self.none}
        return {name: zeros[name] if g is None else np.array(self._device.host(g)) for name, g in by_leaf.items()}

    def _has_tensor(self, one: _Input) -> bool:
        return any(leaf.name in self.tensors for leaf in one.leaves)

    def _answered(self, by_input: Values) -> set[str]:
        """Leaves inside lists and dicts with a gradient other than None."""
        inside = [(n, x) for n, x, _ in self._inputs if n in by_input and _is_container(x)]
        return {leaf for n, x in inside for leaf, gradient in _along(n, x, by_input[n]) if gradient is not None}

    def _other_count(self, gradients: tuple[Any, ...], meant: list[str]) -> list[str]:
        """The inputs to which this many gradients belong: with constants, all inputs, or Python floats as well."""
        arrays = [one.name for one in self._inputs if any(is_inexact(leaf.value) for leaf in one.leaves)]
        if len(gradients) == len(arrays):
            return arrays
        if len(gradients) == len(self.all_names) and all(
            gradient is None for name, gradient in zip(self.all_names, gradients, strict=True) if name not in arrays
        ):
            return self.all_names
        numbers = [
            one.name
            for one in self._inputs
            if self._has_tensor(one) or any(isinstance(leaf.value, float) for leaf in one.leaves)
        ]
        if len(gradients) == len(numbers):
            self._check_numbers()
            return numbers
        way = "; for an input that wants none, return None in its place, name it in constant=, or pass it by name"
        raise ShapeError(
            f"backward: expected {len(meant)} gradients, of {', '.join(meant) or 'no input'}, "
            f"in this order, got {len(gradients)}{way if len(gradients) < len(meant) else ''}"
        )

    def _check_numbers(self, which: Container[str] | None = None) -> None:
        """Make Python floats, all or those of these names, tensors of shape ()."""
        numbers = {
            leaf.name: np.array(leaf.value, dtype=np.float64)
            for leaf in self._leaves
            if isinstance(leaf.value, float) and (which is None or leaf.name in which)
        }
        both = self.tensors | numbers
        ordered = {name: both[name] for name, _ in self._leaves if name in both}
        self.tensors.clear()  # the same dictionary, so that its other holders see them
        self.tensors.update(ordered)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Outputs or gradients, one or several, as a tuple."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def host_copies(y: Any, device: Device) -> tuple[HostArray, ...]:
    """The outputs on the host, as copies: a forward may use its output's memory again at the next call."""
    return tuple(np.array(device.host(part)) for part in as_tuple(y))


def like(y: Any, parts: list[Array]) -> Any:
    """parts in the structure of y: a tuple, a list, or the only part."""
    return type(y)(parts) if type(y) in (tuple, list) else tuple(parts) if isinstance(y, tuple) else parts[0]


def is_array(x: Any) -> bool:
    """Whether x is an array, or one of NumPy's numbers."""
    return isinstance(getattr(x, "shape", None), tuple) and hasattr(x, "dtype")


def copied(x: Array) -> Array:
    """A copy of an array, on its device."""
    return x.copy() if isinstance(x, np.ndarray | np.generic) else namespace(x).asarray(x, copy=True)


def is_float(x: Any) -> bool:
    """Whether x is an array of floating-point numbers."""
    return is_inexact(x) and "complex" not in str(x.dtype) and getattr(x.dtype, "kind", "f") != "c"


def place(x: Any, device: Device) -> Any:
    """Integer and boolean arrays, those of masks among them, to the device."""
    if is_of_layers(x, "Context"):
        return replace(x, mask=place(x.mask, device), memory_mask=place(x.memory_mask, device))
    if isinstance(x, AttentionMask) and isinstance(x.key_visible, np.ndarray):
        return replace(x, key_visible=device.array(x.key_visible, "bool"))
    if isinstance(x, np.ndarray) and x.dtype.kind in "iub" and not device.owns(x):
        return device.array(x, "bool" if x.dtype.kind == "b" else "int64")
    return x


def _is_container(x: Any) -> bool:
    """A list, tuple or dict with an array of numbers that are no integers in it."""
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
    return any(is_inexact(part) or _is_container(part) for part in parts)


def _parts(x: Any) -> list[tuple[Any, Any]]:
    return list(x.items()) if isinstance(x, dict) else list(enumerate(x))


def leaves_of(name: str, x: Any) -> Iterator[Leaf]:
    if _is_container(x):
        for key, part in _parts(x):
            yield from leaves_of(f"{name}[{key!r}]", part)
    else:
        yield Leaf(name, x)


def _along(name: str, container: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of value, which has the structure of given, by name; None stands for all of them."""
    if not _is_container(container):
        yield name, value
        return
    for key, part in _parts(container):
        try:
            inner = None if value is None else value[key]
        except (KeyError, IndexError, TypeError):
            if isinstance(part, ConstantInput) or not (is_float(part) or _is_container(part)):
                continue  # this one was not requested
            raise ShapeError(
                f"gradient of {name}: expected a {type(container).__name__} like the input, with {key!r} in it, "
                f"got {_kind(value)}"
            ) from None
        yield from _along(f"{name}[{key!r}]", part, inner)


def rebuilt(container: Any, leaves: Iterator[Any]) -> Any:
    """given with its leaves replaced, in order."""
    if not _is_container(container):
        return next(leaves)
    parts = [(key, rebuilt(part, leaves)) for key, part in _parts(container)]
    if isinstance(container, dict):
        return dict(parts)
    values = [part for _, part in parts]
    return type(container)(*values) if hasattr(container, "_fields") else type(container)(values)


def parameter_names(forward: Function, count: int) -> list[str]:
    """The names of forward's first ``count`` parameters."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in (parameters_of(forward) or {}).values() if p.kind in kinds]
    return (names + [f"input{i}" for i in range(count)])[:count]


def host64(x: Array, device: Device, name: str = "array") -> HostArray:
    """x on the host in float64. Raises DTypeError for complex numbers, whose real parts alone would be checked."""
    if "complex" in str(x.dtype):
        way = "make its real and imaginary parts two arrays, and put them together in forward"
        raise DTypeError(f"{name}: expected real numbers, got {x.dtype}; {way}; constant= names one without gradient")
    return np.array(device.host(x) if device.owns(x) else x, dtype=np.float64)


def _kind(x: Any) -> str:
    if isinstance(x, ConstantInput):
        return "constant"
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{x.dtype} array"
    return f"{type(x).__name__} {x!r}" if isinstance(x, int | float) else type(x).__name__
