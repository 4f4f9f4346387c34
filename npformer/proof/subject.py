"""What a gradient check needs of the thing it checks: its tensors, its outputs, its gradients.

A pair has inputs; a layer or model has inputs and parameters. Both are wrapped as a ``Subject``:
a function of named float64 tensors that can be evaluated with one tensor replaced, by real or by
complex numbers, and that can be asked for its analytic gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from npformer.backend import Device, get_backend
from npformer.errors import ConfigError, ShapeError
from npformer.functional import AttentionMask
from npformer.typing import Array

Host = np.ndarray[Any, Any]


class Subject(Protocol):
    """A function of named tensors, with gradients."""

    tensors: dict[str, Host]  # float64 copies of everything differentiable
    input_names: list[str]  # of all positional inputs, differentiable or not

    def outputs(self, replaced: dict[str, Host]) -> tuple[Host, ...]:
        """The forward's outputs, with some tensors replaced (complex numbers allowed)."""

    def gradients(self, upstream: tuple[Host, ...]) -> dict[str, Host]:
        """The analytic gradient of each tensor, given that of each output."""


def subject(target: Any, inputs: Sequence[Any], options: dict[str, Any], device: Device | None) -> Subject:
    """Wrap a pair (a Pair or (forward, backward)) or anything with forward and backward methods."""
    if device is None:
        own = getattr(getattr(target, "backend", None), "device", None)  # a stranger's backend may be anything
        device = own or get_backend("numpy", kernels="plain").device
    options = {name: _place(value, device) for name, value in options.items()}
    if not isinstance(target, tuple) and not (hasattr(target, "forward") and hasattr(target, "backward")):
        raise ConfigError(
            f"target: expected a pair (forward, backward), or a layer or model with methods of these names, "
            f"got {type(target).__name__}; a function alone has no gradient to check: npf.gradcheck((f, f_backward), x)"
        )
    if isinstance(target, tuple):
        return PairSubject(target[0], target[1], inputs, options, device)
    return LayerSubject(target, inputs, options, device)


class PairSubject:
    """A forward function and a backward function."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        inputs: Sequence[Any],
        options: dict[str, Any],
        device: Device,
    ) -> None:
        self._forward, self._backward, self._options, self._device = forward, backward, options, device
        self._inputs = _Inputs(forward, inputs, device)
        self.tensors, self.input_names = self._inputs.tensors, self._inputs.all_names
        self.forward_name: str = getattr(getattr(forward, "func", forward), "__name__", "")

    def outputs(self, replaced: dict[str, Host]) -> tuple[Host, ...]:
        y, _ = self._forward(*self._inputs.placed(replaced), **self._options)
        return _copies(y, self._device)

    def gradients(self, upstream: tuple[Host, ...]) -> dict[str, Host]:
        y, cache = self._forward(*self._inputs.placed({}), **self._options)
        found = self._backward(_like(y, [self._device.array(u, "float64") for u in upstream]), cache)
        return self._inputs.named(found, self._device)


class LayerSubject:
    """Anything with ``forward(*inputs) -> (y, cache)``, ``backward(dy, cache)`` and perhaps ``named_parameters()``."""

    def __init__(self, layer: Any, inputs: Sequence[Any], options: dict[str, Any], device: Device) -> None:
        self._layer, self._options, self._device = layer, options, device
        self._parameters = _by_name(layer.named_parameters()) if hasattr(layer, "named_parameters") else {}
        self._inputs = _Inputs(layer.forward, inputs, device, taken=self._parameters)
        self._owners: dict[int, Any] = {
            id(getattr(p, "owner", p)): getattr(p, "owner", p) for p in self._parameters.values()
        }
        self._points = {key: _generic_point(_host64(owner.data, device)) for key, owner in self._owners.items()}
        with self._parameters_as("float64"):
            values = {name: _host64(p.data, device) for name, p in self._parameters.items()}
        self.tensors, self.input_names = self._inputs.tensors | values, self._inputs.all_names

    def outputs(self, replaced: dict[str, Host]) -> tuple[Host, ...]:
        dtype = "complex128" if any(np.iscomplexobj(x) for x in replaced.values()) else "float64"
        with self._parameters_as(dtype):
            for name in replaced.keys() & self._parameters.keys():
                self._parameters[name].data[...] = self._device.array(replaced[name], dtype)
            y, _ = self._layer.forward(*self._inputs.placed(replaced), **self._options)
            return _copies(y, self._device)

    def gradients(self, upstream: tuple[Host, ...]) -> dict[str, Host]:
        with self._parameters_as("float64"):
            for owner in self._owners.values():
                owner.grad = self._device.zeros(owner.data.shape, "float64")
            y, cache = self._layer.forward(*self._inputs.placed({}), **self._options)
            found = self._layer.backward(_like(y, [self._device.array(u, "float64") for u in upstream]), cache)
            gradients = self._inputs.named(found, self._device)
            gradients |= {name: np.array(self._device.host(p.grad)) for name, p in self._parameters.items()}
        return gradients

    @contextmanager
    def at_its_point(self) -> Iterator[list[Any]]:
        """For a while, the parameters are those of the check; gives the inputs as the check gives them."""
        with self._parameters_as("float64"):
            yield self._inputs.placed({})

    @contextmanager
    def _parameters_as(self, dtype: str) -> Iterator[None]:
        """For a while, every parameter holds a copy in dtype; then the old arrays again, gradients too."""
        before = [(owner, owner.data, owner.grad) for owner in self._owners.values()]
        try:
            for key, owner in self._owners.items():
                owner.data = self._device.array(self._points[key], dtype)
            yield
        finally:
            for owner, data, grad in before:
                owner.data, owner.grad = data, grad


def _by_name(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """name -> parameter. Raises ConfigError if two have one name: one of them would go unchecked."""
    found: dict[str, Any] = {}
    for name, parameter in named:
        if name in found:
            raise ConfigError(f"named_parameters: expected each name once, got {name!r} twice; rename one")
        found[name] = parameter
    return found


def _generic_point(x: Host) -> Host:
    """x, or, if all of x is one number, numbers around it: γ = 1 and b = 0 hide mistakes."""
    if x.size > 1 and bool(np.all(x == x.flat[0])):
        return np.asarray(x + 0.3 * np.random.default_rng(x.size).normal(size=x.shape))
    return x


class _Inputs:
    """Positional inputs: float arrays become tensors, everything else is passed on as it is.

    Arrays go in read-only, so an operation that writes into its input fails at once.
    """

    def __init__(
        self, forward: Callable[..., Any], inputs: Sequence[Any], device: Device, taken: Container[str] = ()
    ) -> None:
        self._device = device
        self._given = list(inputs)
        names = self.all_names = [
            f"input {n}" if n in taken else n for n in _parameter_names(forward, len(self._given))
        ]
        self._names = [name if _is_float(x) else None for name, x in zip(names, self._given, strict=True)]
        self.tensors = {
            name: _host64(x, device) for name, x in zip(self._names, self._given, strict=True) if name is not None
        }

    def placed(self, replaced: dict[str, Host]) -> list[Any]:
        """The inputs on the device."""
        return [
            _place(x, self._device) if name is None else self._place_float(replaced.get(name, self.tensors[name]), x)
            for name, x in zip(self._names, self._given, strict=True)
        ]

    def _place_float(self, value: Host, given: Array) -> Array:
        dtype = "complex128" if np.iscomplexobj(value) else "float64"
        placed = self._device.array(value, dtype)
        if isinstance(placed, np.ndarray):
            placed = _laid_out_like(given, placed)
            placed.flags.writeable = False
        return placed

    def named(self, found: Any, device: Device) -> dict[str, Host]:
        """What a backward returned, by input name. Raises ShapeError if the number does not fit."""
        gradients = () if found is None else _as_tuple(found)
        if len(gradients) != len(self.tensors):
            raise ShapeError(
                f"backward: expected {len(self.tensors)} gradients, of {', '.join(self.tensors) or 'no input'}, "
                f"in this order, got {len(gradients)}"
            )
        return {name: np.array(device.host(gradient)) for name, gradient in zip(self.tensors, gradients, strict=True)}


def _copies(y: Any, device: Device) -> tuple[Host, ...]:
    """The outputs on the host, as copies: a forward may use its output's memory again at the next call."""
    return tuple(np.array(device.host(part)) for part in _as_tuple(y))


def _laid_out_like(given: Array, x: Host) -> Host:
    """x with gaps between its elements if given has them, so that non-contiguous inputs are checked as such."""
    if not isinstance(given, np.ndarray) or given.flags.c_contiguous or x.ndim == 0:
        return x
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)[..., ::2]
    spread[...] = x
    return spread


def _parameter_names(forward: Callable[..., Any], count: int) -> list[str]:
    """The names of forward's first ``count`` parameters."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(forward).parameters.values() if p.kind in kinds]
    return (names + [f"input{i}" for i in range(count)])[:count] if len(names) < count else names[:count]


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape") and "float" in str(x.dtype)


def _host64(x: Array, device: Device) -> Host:
    return np.array(device.host(x) if device.owns(x) else x, dtype=np.float64)


def placed_as(x: Any, device: Device, dtype: str) -> Any:
    """An input on the device, float arrays as dtype, everything else as it is."""
    return device.array(x, dtype) if _is_float(x) else _place(x, device)


def _place(x: Any, device: Device) -> Any:
    """Integer and boolean arrays, a mask's among them, to the device."""
    if isinstance(x, AttentionMask) and isinstance(x.key_visible, np.ndarray):
        return replace(x, key_visible=device.array(x.key_visible, "bool"))
    if isinstance(x, np.ndarray) and x.dtype.kind in "iub" and not device.owns(x):
        return device.array(x, "bool" if x.dtype.kind == "b" else "int64")
    return x


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _like(y: Any, parts: list[Array]) -> Any:
    """parts as a tuple if y is one, else the only part."""
    return tuple(parts) if isinstance(y, tuple) else parts[0]
