"""The target of a gradient check: its tensors, its outputs, its gradients.

Whatever is checked, explained or compared runs as a ``Subject``: a pair, a layer or a model. ``adapters`` give users'
classes, and code of PyTorch, JAX or other processes, one of these forms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from npformer.backend import Device, NumpyDevice, Pair, get_backend
from npformer.check.checkable import COMPLEX, exchanged, is_cupys, is_inexact, within
from npformer.check.inputs import Inputs, as_tuple, host64, host_copies, like, place
from npformer.check.measures import is_constant, with_gaps
from npformer.errors import ConfigError, DTypeError, ProcessError, ShapeError
from npformer.typing import HostArray, HostArrays, Named, Tensors, Values

#: The upstream gradient: one array for each output.
Upstream = tuple[HostArray, ...]
NOTHING_REPLACED: Tensors = MappingProxyType({})
NO_OPTIONS: Named = MappingProxyType({})


class Call(NamedTuple):
    """A forward, with what it was given and what it returned."""

    inputs: list[Any]
    options: Values
    y: Any
    cache: Any


class BackwardFailed(Exception):
    """A backward raised an exception, or returned no gradients that fit, where its forward answers."""

    def __init__(self, checked: Subject, error: Exception) -> None:
        super().__init__(str(error))
        self.checked, self.error = checked, error


def name_of(target: Any) -> str:
    """A target's name: its own, its class's, or for a pair its forward's."""
    if isinstance(target, tuple):
        forward = getattr(target[0], "func", target[0])  # the function inside a partial
        return str(getattr(forward, "__name__", "pair")).removesuffix("_forward")
    return str(getattr(target, "name", None) or type(target).__name__)


def _expect_call(target: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise ConfigError unless the forward of a layer, a model or an object takes so many inputs."""
    try:
        declared = inspect.signature(target.forward)
    except ValueError:  # a compiled function may have none
        return
    if isinstance(target, Pair):
        return  # which says it in its own words
    try:
        declared.bind(*inputs, **options)
    except TypeError as error:
        raise ConfigError(
            f"inputs: expected those of {name_of(target)}.forward, {', '.join(declared.parameters)}, got "
            f"{len(inputs)}: {error}"
        ) from None


class Subject:
    """A target at a check's numbers: a function of named float64 tensors, with gradients.

    target: a pair, whose tensors are its inputs, or anything with ``forward(*inputs) -> (y, cache)`` and
    ``backward(dy, cache)``, and perhaps ``named_parameters()``, which are tensors, too. It runs with some tensors
    replaced, by real or by complex numbers. The target's own parameters are as before afterwards.

    names: of the inputs, if not those in forward's signature. dtype: of float arrays. moved: a parameter that is
    constant is moved a little, since a constant hides mistakes. structure: "symmetric", for all inputs or by name:
    NumPy reads one triangle of such a matrix, as a Cholesky factor's, so a gradient may be spread over both triangles
    in any way. The matrix stays symmetric when it is moved, and its gradient is (dX + dXᵀ)/2.
    Raises ConfigError for anything that is no target, and for a structure of another name or input; ShapeError for one
    of a matrix that is not square.
    """

    def __init__(
        self,
        target: Any,
        inputs: Sequence[Any],
        options: Named = NO_OPTIONS,
        device: Device | None = None,
        names: Sequence[str] | None = None,
        dtype: str = "float64",
        moved: bool = True,
        structure: str | Mapping[str, str] | None = None,
    ) -> None:
        self.target = target = _expected(target)
        _expect_call(target, inputs, options)
        if device is None:
            of_target = getattr(getattr(target, "backend", None), "device", None)  # a user's backend may be anything
            on_gpu = any(map(is_cupys, within(inputs, options)))
            device = of_target or (get_backend("cupy", kernels="plain").device if on_gpu else NumpyDevice())
        self.options = {name: place(value, device) for name, value in options.items()}
        self.device, self.dtype = device, dtype
        self.litter: float | None = None  # what memory holds that is freed just before a backward, for ``np.empty``
        self.kinds: list[str] = []  # dtypes of the outputs, after the first forward
        self.silent: dict[int, str] = {}  # outputs that want no gradient, by their position, and who says so
        self.parameters: Values = _by_name(target.named_parameters()) if hasattr(target, "named_parameters") else {}
        self.inputs = Inputs(target.forward, inputs, device, names, self.parameters, dtype)
        self.input_names = self.inputs.all_names
        owners: Values = {name: getattr(p, "owner", p) for name, p in self.parameters.items()}
        self.owners: dict[int, Any] = {id(owner): owner for owner in owners.values()}
        points = {id(owner): host64(owner.data, device, name) for name, owner in owners.items()}
        self._points = {key: _generic_point(x) if moved else x for key, x in points.items()}
        with self._parameters_as(dtype):
            self._values = {name: host64(p.data, device, name) for name, p in self.parameters.items()}
        self.symmetric_names: frozenset[str] = frozenset()  # tensors that are symmetric over their last two axes
        if structure is not None:
            self.symmetric_names = _symmetric(self.tensors, structure)

    @property
    def is_pair(self) -> bool:
        """Whether the target is a pair of functions."""
        return isinstance(self.target, Pair)

    def of(self, target: Any, dtype: str | None = None) -> Self:
        """Another target at the same inputs and options."""
        inputs = self.inputs.mapped(lambda leaf: leaf.value)
        structure = dict.fromkeys(self.symmetric_names, "symmetric")
        return type(self)(
            target, inputs, self.options, self.device, self._names, dtype or self.dtype, structure=structure or None
        )

    @property
    def elements(self) -> int:
        """Of all tensors."""
        return sum(x.size for x in self.tensors.values())

    @property
    def _names(self) -> list[str]:
        return [name.removeprefix("input ") for name in self.input_names]

    def elsewhere(self, inputs: Sequence[Any], options: Named, moved: Callable[[HostArray], HostArray]) -> Subject:
        """The same target with other inputs, options and parameters."""
        other = Subject(self.target, inputs, options, self.device, self._names, self.dtype, moved=False)
        other._points = {key: moved(x) for key, x in self._points.items()}
        with other._parameters_as(self.dtype):
            other._values = {name: host64(p.data, self.device) for name, p in self.parameters.items()}
        other.symmetric_names = self.symmetric_names
        return other

    @property
    def kept(self) -> list[int]:
        """Positions of the outputs that are floating-point numbers: those of ``outputs``, after the first forward."""
        return [i for i, kind in enumerate(self.kinds) if "float" in kind or "complex" in kind]

    @cached_property
    def fixed(self) -> HostArrays:
        """Where a tensor is not finite: such entries are neither moved nor judged. Tensors without any are left out."""
        return {name: ~np.isfinite(x) for name, x in self.tensors.items() if not np.all(np.isfinite(x))}

    @property
    def tensors(self) -> HostArrays:
        """float64 copies of everything differentiable, with a Python float if backward returns a gradient for it."""
        return self.symmetric(self.inputs.tensors | self._values)

    def symmetric(self, tensors: Tensors) -> HostArrays:
        """The tensors or gradients, symmetric where that is declared; a gradient of another shape is refused later."""
        declared = {name: tensors[name].shape for name in self.symmetric_names & tensors.keys()}
        square = {name for name, shape in declared.items() if shape[-1:] == shape[-2:-1]}
        return {name: (x + np.swapaxes(x, -1, -2)) / 2 if name in square else x for name, x in tensors.items()}

    def outputs(self, replaced: Tensors) -> tuple[HostArray, ...]:
        """The forward's outputs, with some tensors replaced (complex numbers allowed), each in its own shape.

        Raises ConfigError if none is of floating-point numbers, DTypeError if one is complex for real tensors.
        """
        replaced = self._at(replaced)
        with self.at(replaced):
            every = host_copies(self.forward(replaced).y, self.device)
        self.kinds = [str(y.dtype) for y in every]
        outputs = tuple(every[i] for i in self.kept)
        if not outputs:
            got = ", ".join(self.kinds) or "none"
            raise ConfigError(f"forward: expected an output of floating-point numbers, got {got}")
        if any(y.dtype.kind == "c" for y in outputs) and not any(map(np.iscomplexobj, replaced.values())):
            raise DTypeError(COMPLEX)
        return outputs

    def gradients(self, upstream: Upstream, replaced: Tensors = NOTHING_REPLACED) -> HostArrays:
        """The analytic gradient of each tensor, given that of each output; both have the shape of what they are of.

        Raises BackwardFailed for whatever the backward raises, but for what says that it cannot be checked like this.
        """
        replaced = self._at(replaced)
        with self.at(replaced):
            call = self.forward(replaced)
            dy = self.upstream(call.y, upstream)
            if self.litter is not None:
                for x in self.tensors.values():  # NumPy keeps up to 7 small blocks of a size
                    [np.full(x.shape, self.litter) for _ in range(8 if x.nbytes < 1024 else 2)].clear()
            return self.backward(dy, call.cache)

    def call(self, upstream: Upstream) -> tuple[Any, Any]:
        """(dy, cache): the arguments of backward."""
        call = self.forward()
        return self.upstream(call.y, upstream), call.cache

    def again(self, dy: Any, cache: Any) -> HostArrays:
        """The gradients from another backward of a call."""
        with self.at({}):
            return self.backward(dy, cache)

    def backward(self, dy: Any, cache: Any, adds: bool = False) -> HostArrays:
        """The gradients of inputs and parameters from one backward; adds: to what the parameters have already.

        Raises BackwardFailed for whatever the backward raises, but for what says that it cannot be checked like this.
        """
        if not adds:
            self.zero_gradients()
        try:
            gradients = self.inputs.named(self.target.backward(dy, cache))
        except (ConfigError, DTypeError, ProcessError):
            raise  # the target is not one that can be checked like this
        except Exception as error:
            raise BackwardFailed(self, error) from error
        gradients |= self.accumulated
        for name, where in self.fixed.items():
            if gradients[name].shape == where.shape:
                gradients[name][where] = 0
        return self.symmetric(gradients)

    def pulled(self, call: Call, upstream: Upstream, adds: bool = False) -> HostArrays:
        """The gradients from a backward of a call."""
        return self.backward(self.upstream(call.y, upstream), call.cache, adds)

    def zero_gradients(self) -> None:
        """Gradients of parameters begin at 0."""
        for owner in self.owners.values():
            owner.grad = self.device.zeros(owner.data.shape, self.dtype)

    @property
    def accumulated(self) -> HostArrays:
        """Copies of the parameters' gradients as they are."""
        return {
            name: np.zeros(p.data.shape) if p.grad is None else np.array(self.device.host(p.grad))
            for name, p in self.parameters.items()
        }

    def _at(self, replaced: Tensors) -> HostArrays:
        """What is replaced, and what is symmetric: it was given in any form."""
        return self.symmetric({**{name: self.tensors[name] for name in self.symmetric_names}, **replaced})

    @contextmanager
    def at_its_point(self) -> Iterator[list[Any]]:
        """Within this context the parameters are the check's; yields the check's inputs."""
        with self._parameters_as(self.dtype):
            yield self.inputs.placed({})

    def placed(self, replaced: Named) -> tuple[list[Any], Values]:
        """The inputs in new memory, and the options, some replaced."""
        others = {name: place(x, self.device) for name, x in replaced.items()} if self.options else {}
        return self.inputs.placed(replaced), exchanged(self.options, others) if others else self.options

    def forward(self, replaced: Named = NOTHING_REPLACED, frozen: bool = False) -> Call:
        """A forward with the present parameters; inputs, read-only if frozen, and options are replaced by any others.

        Raises ConfigError if forward does not return (y, cache).
        """
        inputs, options = self.placed(replaced)
        if frozen:
            make_read_only(inputs)
        returned = self.target.forward(*inputs, **options)
        if not isinstance(returned, tuple) or len(returned) != 2:
            kind = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else type(returned).__name__
            raise ConfigError(
                f"forward: expected to return (y, cache), got {kind}; return (y, None) if backward needs nothing"
            )
        if type(returned[0]) is not np.ndarray or returned[0].dtype.kind not in "fc":
            _expect_arrays(returned[0])
        return Call(inputs, options, *returned)

    def upstream(self, y: Any, upstream: Upstream) -> Any:
        """dy, in the form of y; zeros for an output that has no gradient."""
        rest = iter(upstream)
        whole = [
            next(rest) if isinstance(part, float | complex) or is_inexact(part) else np.zeros(np.shape(part))
            for part in as_tuple(y)
        ]
        return like(y, [_on(self.device, u, self.dtype) for u in whole])

    @contextmanager
    def at(self, replaced: Named = NOTHING_REPLACED) -> Iterator[None]:
        """Within this context the parameters are the check's, some of them replaced."""
        dtype = "complex128" if any(np.iscomplexobj(x) for x in replaced.values()) else self.dtype
        with self._parameters_as(dtype):
            for name in replaced.keys() & self.parameters.keys():
                self.parameters[name].data[...] = self.device.array(replaced[name], dtype)
            yield

    @contextmanager
    def _parameters_as(self, dtype: str) -> Iterator[None]:
        """Within this context every parameter holds a copy in dtype; then arrays and gradients are restored."""
        before = [(owner, owner.data, owner.grad) for owner in self.owners.values()]
        try:
            for key, owner in self.owners.items():
                owner.data = self.device.array(self._points[key], dtype)
            yield
        finally:
            for owner, data, grad in before:
                owner.data, owner.grad = data, grad


def _expected(target: Any) -> Any:
    """The target, two functions as a Pair."""
    if isinstance(target, tuple):
        if len(target) != 2:
            raise ConfigError(f"target: expected a pair of functions (forward, backward), got a tuple of {len(target)}")
        return Pair(*target)
    if hasattr(target, "forward") and hasattr(target, "backward"):
        return target
    raise ConfigError(
        f"target: expected a pair (forward, backward), or a layer or model with methods of these names, "
        f"got {type(target).__name__}; a function alone has no gradient: npf.gradcheck((f, f_backward), x); "
        "npf.from_torch(f) and npf.from_jax(f) check PyTorch's and JAX's gradient of it; npf.from_object(o) takes "
        "an object that keeps its cache in itself"
    )


def _symmetric(tensors: HostArrays, structure: str | Mapping[str, str]) -> frozenset[str]:
    """The names of the tensors that a structure declares symmetric."""
    square = [name for name, x in tensors.items() if x.ndim > 1 and x.shape[-1] == x.shape[-2]]
    wanted = dict.fromkeys(square, structure) if isinstance(structure, str) else dict(structure)
    for name, kind in wanted.items():
        if kind != "symmetric" or name not in tensors:
            raise ConfigError(
                f'structure: expected "symmetric" or {{name: "symmetric"}} with names among '
                f"{', '.join(tensors)}, got {structure!r}"
            )
        if name not in square:
            raise ShapeError(f"{name}: expected square matrices, got {tensors[name].shape}; it cannot be symmetric")
    return frozenset(wanted)


def make_read_only(arrays: Iterable[Any]) -> None:
    """Make these arrays read-only, those on the host."""
    for x in within(*arrays):
        if isinstance(x, np.ndarray):
            x.flags.writeable = False


def _expect_arrays(y: Any) -> None:
    """Raise ConfigError unless y is an array or a flat tuple of arrays."""
    for part in as_tuple(y):
        if not isinstance(part, int | float | complex) and "object" in str(getattr(part, "dtype", "object")):
            kind = type(part).__name__ + ("" if part is y else " in it")
            what = f"expected an array or a flat tuple of arrays as its output, got a {kind}"
            raise ConfigError(f"forward: {what}; return its arrays in one tuple, and take a tuple of gradients")


def _on(device: Device, upstream: HostArray, dtype: str) -> Any:
    """An upstream gradient on the device, in separate memory with the same layout, strides of 0 among them."""
    if type(upstream) is not np.ndarray:
        return upstream  # it rounds what is made with it, see stochastic.py
    if dtype == "float16":
        return upstream.astype(np.float16)
    placed = device.array(upstream, dtype)
    if not isinstance(placed, np.ndarray):
        return placed
    if upstream.flags.c_contiguous or upstream.flags.f_contiguous:
        return np.array(placed, order="C" if upstream.flags.c_contiguous else "F")
    if 0 in upstream.strides:
        axes = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in upstream.strides)
        return np.broadcast_to(placed[axes].copy(), placed.shape)
    return with_gaps(placed)


def _by_name(named: Iterable[tuple[str, Any]]) -> Values:
    """name -> parameter. Raises ConfigError if two have the same name, since one of them would not be checked."""
    by_name: Values = {}
    for name, parameter in named:
        if name in by_name:
            raise ConfigError(f"named_parameters: expected each name once, got {name!r} twice; rename one")
        by_name[name] = parameter
    return by_name


def _generic_point(x: HostArray) -> HostArray:
    """x, or, if all of x is one number, numbers around it: γ = 1 and b = 0 hide mistakes."""
    if is_constant(x):
        return np.asarray(x + 0.3 * np.random.default_rng(x.size).normal(size=x.shape))
    return x
