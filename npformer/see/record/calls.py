"""Records every call of a layer or an operation, forward and backward.

One listener serves ``bisect``, which checks the calls, and ``trace``, which shows them. It replaces the methods of the
layers and the pairs of their backends for a while, and changes no number, unless its ``Hooks`` say so.

Which parameters an array of a call is made of is found by its place in memory: a layer hands the data of its parameters
to operations, and their gradients for backward to add to, whole, transposed (a tied table), or as a block of columns
(W_q, W_k and W_v in one product). Each is a view of a parameter's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device, Ops, Pair
from npformer.backend.ops import add_into
from npformer.check.in_float64 import attributes, plain_row
from npformer.check.inputs import as_tuple, like, parameter_names
from npformer.functional.arrays import namespace
from npformer.layers import Layer
from npformer.layers.residual import joins
from npformer.typing import HostArray, HostArrays


@dataclass(eq=False)
class Call:
    """One call of a layer or an operation, forward and backward, with the calls inside it."""

    name: str  # dotted, beginning with the type of the target that is listened to
    target: Any  # the layer, or the operation's Pair
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    operation: str = ""  # its name in the table of operations; "" for a layer
    parent: Call | None = None
    parts: list[Call] = field(default_factory=list)
    number: int = -1  # in the order in which calls begin
    output: Any = None
    cache: Any = None
    upstream: Any = None  # its backward's upstream gradient
    gradients: Any = None  # what its backward returned
    added: tuple[Any, ...] = ()  # what it added to the gradient of each of its parameters; None: frozen
    forward_time: tuple[int, int] = (-1, -1)  # when it began and ended, counted in beginnings and ends of calls
    backward_time: tuple[int, int] | None = None  # None: its backward did not run

    @property
    def shown_name(self) -> str:
        """Its name within the target: "" for the target itself."""
        return self.name.partition(".")[2]

    @property
    def input_names(self) -> list[str]:
        """The names of its inputs."""
        if isinstance(self.target, tuple):
            return parameter_names(self.target[0], len(self.inputs))
        return parameter_names(type(self.target).forward, len(self.inputs) + 1)[1:]


class Hooks:
    """Takes part in each call that is listened to. Each method may change what it is given; these change nothing."""

    def inputs(self, call: Call, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Before a forward: the inputs that it gets."""
        return inputs

    def outputs(self, call: Call, output: Any) -> Any:
        """After a forward: the output that its caller gets."""
        return output

    def entering(self, call: Call | None, dy: Any) -> Any:
        """Before a backward: the upstream gradient that it gets. call is None if its cache is unknown."""
        return dy

    def leaving(self, call: Call | None, gradients: Any) -> Any:
        """After a backward: the gradients that its caller gets. Those of parameters are added already."""
        return gradients


@dataclass
class Moving(Hooks):
    """Adds to one of the outputs of a call, or to one of its inputs, in every forward."""

    number: int  # of the call
    part: int  # which output or input
    by: HostArray
    of_inputs: bool = False

    def inputs(self, call: Call, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._moved(call, inputs) if self.of_inputs else inputs

    def outputs(self, call: Call, output: Any) -> Any:
        return output if self.of_inputs else like(output, list(self._moved(call, as_tuple(output))))

    def _moved(self, call: Call, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        at = self.part if call.number == self.number else -1
        return tuple(part + self.by if i == at else part for i, part in enumerate(parts))


@contextmanager
def listening(target: Any, hooks: Hooks | None = None, known: Sequence[Call] = ()) -> Iterator[CallRecorder]:
    """Within this context, every call of target, of the layers in it and of their operations is recorded.

    A LayerNorm is recorded by its operations, since one kernel may compute it together with the sum before it. Only
    layers are recorded automatically; call anything else through the recorder. hooks: see each call, and may change
    it. known: the calls of an earlier time; the hooks see them instead.
    """
    recorder = CallRecorder(hooks or Hooks(), known)
    layers = dict(layers_in(target)) if isinstance(target, Layer) else {}
    with ExitStack() as stack:
        for name, layer in layers.items():
            shown = f"{type(target).__name__}{'.' if name else ''}{name}"
            ops = Ops(**{op: recorder.pair(shown, op, pair) for op, pair in vars(layer.backend.ops).items()})
            new: dict[str, Any] = {"backend": replace(layer.backend, ops=ops)}
            if layer is target or not joins(layer):
                new["forward"] = partial(recorder.forward, shown, layer, layer.forward)
                new["backward"] = partial(recorder.backward, layer, layer.backward)
            stack.enter_context(attributes(layer, **new))
        yield recorder


@dataclass
class CallRecorder:
    """Calls forward and backward methods in the place of their callers, and records the calls."""

    hooks: Hooks
    known: Sequence[Call]
    calls: list[Call] = field(default_factory=list)  # in the order in which their forwards begin
    _open: list[Call] = field(default_factory=list)
    _time: int = 0

    def pair(self, owner: str, op: str, pair: Pair) -> Pair:
        """The pair of an operation, recorded under its owner's name."""
        name = f"{owner}.{op}" if owner else op
        return pair._replace(
            forward=partial(self.forward, name, pair, pair.forward, _operation=op),
            backward=partial(self.pair_backward, pair),
        )

    def forward(self, name: str, target: Any, forward: Any, *inputs: Any, _operation: str = "", **options: Any) -> Any:
        """Call forward, and record the call within the current one."""
        parent = self._open[-1] if self._open else None
        call = Call(name, target, inputs, options, _operation, parent, number=len(self.calls))
        self.calls.append(call)
        if parent is not None:
            parent.parts.append(call)
        self._open.append(call)
        begun = self._tick()
        try:
            call.inputs = self.hooks.inputs(self._shown(call), inputs)
            returned = forward(*call.inputs, **options)
        finally:
            self._open.pop()
        is_pair = isinstance(returned, tuple) and len(returned) == 2
        call.output, call.cache = returned if is_pair else (returned, None)
        call.output = self.hooks.outputs(self._shown(call), call.output)
        call.forward_time = begun, self._tick()
        return (call.output, call.cache) if is_pair else call.output

    def backward(self, target: Any, backward: Any, dy: Any, cache: Any, *more: Any, **options: Any) -> Any:
        """Call the backward of a layer, and record it with its call."""
        return self._backward(target, lambda dy: backward(dy, cache, *more, **options), dy, cache, (), ())

    def pair_backward(self, pair: Pair, dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
        """Call the backward of a pair, and record it with its call. What it adds to parameters is kept apart first."""
        if not into:
            return self._backward(pair, lambda dy: pair.backward(dy, cache), dy, cache, (), ())
        added = tuple(None if total is None else namespace(total).zeros_like(total) for total in into)
        return self._backward(pair, lambda dy: pair.backward(dy, cache, added), dy, cache, into, added)

    def _backward(self, target: Any, run: Any, dy: Any, cache: Any, into: Sequence[Any], added: Sequence[Any]) -> Any:
        call = self._call_of(target, cache)
        shown = None if call is None else self._shown(call)
        dy, begun = self.hooks.entering(shown, dy), self._tick()
        gradients = run(dy)
        add_into(added, into)
        if call is not None:
            call.upstream, call.gradients, call.added = dy, gradients, tuple(added)
            call.backward_time = begun, self._tick()
        return self.hooks.leaving(shown, gradients)

    def _call_of(self, target: Any, cache: Any) -> Call | None:
        """The call that made this cache; of several, the last whose backward has not run yet."""
        with_cache = [call for call in self.calls if call.target is target and call.cache is cache]
        waiting = [call for call in with_cache if call.backward_time is None]
        return next(reversed(waiting or with_cache), None)

    def _shown(self, call: Call) -> Call:
        """The call that the hooks see."""
        return self.known[call.number] if call.number < len(self.known) else call

    def _tick(self) -> int:
        self._time += 1
        return self._time - 1


def layers_in(layer: Layer) -> Iterator[tuple[str, Layer]]:
    """A layer and all layers in it, by dotted name, each object once under its first name."""
    seen = set()

    def walk(layer: Layer, name: str) -> Iterator[tuple[str, Layer]]:
        if id(layer) not in seen:
            seen.add(id(layer))
            yield name, layer
            for member, part in layer._members():
                if isinstance(part, Layer):
                    yield from walk(part, f"{name}.{member}" if name else member)

    yield from walk(layer, "")


def gradient_names(pair: Any, count: int) -> list[str]:
    """The inputs to which count gradients belong: the first of forward's arguments, token ids apart."""
    row = plain_row(pair)
    if row is None:
        return parameter_names(pair[0], count)
    return [name for name in row.inputs if name != row.ids][:count]


class ParameterPart(NamedTuple):
    """A parameter in an array."""

    parameter: str  # its dotted name
    columns: tuple[int, int] | None  # the columns of the array that are this parameter; None: all
    transposed: bool

    def entry(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Where an entry of the parameter is in the array."""
        if self.transposed:
            return tuple(reversed(index))
        return index if self.columns is None else (*index[:-1], index[-1] + self.columns[0])

    def of(self, x: HostArray) -> HostArray:
        """The entries that are the parameter's, in its shape."""
        return x.T if self.transposed else x if self.columns is None else x[..., slice(*self.columns)]


class Parameters:
    """The parameters of a layer, as their data and gradients are in memory now."""

    def __init__(self, named: Mapping[str, Any], device: Device) -> None:
        self._host = device.host
        #: Owner of memory -> the number of each entry, as they lie in memory; and of the entries of its parameters.
        self._memories: dict[int, tuple[Any, HostArray, HostArrays]] = {}
        for name, parameter in named.items():
            owner = getattr(parameter, "owner", parameter)
            shape = np.shape(owner.data)
            numbers = np.empty_like(self._host(owner.data), dtype=np.int64)
            numbers[...] = np.arange(numbers.size).reshape(shape)
            _, _, views = self._memories.setdefault(id(owner), (owner, numbers.ravel(order="K"), {}))
            views[name] = getattr(parameter, "_view", lambda x: x)(numbers)

    def in_array(self, x: Any) -> list[ParameterPart]:
        """The parameters that x, an input of an operation, is made of; [] if it is no parameter."""
        for owner, numbers, views in self._memories.values():
            places = _places(x, owner.data, numbers)
            if places is not None:
                return [part for name, entries in views.items() if (part := _part(name, places, entries))]
        return []

    def gradients(self) -> list[HostArray]:
        """Copies of the gradients of all memories, for ``changes``."""
        return [np.array(self._host(owner.grad)) for owner, _, _ in self._memories.values()]

    def changes(self, before: list[HostArray]) -> HostArrays:
        """What was added to each parameter since then; those that nothing was added to are left out."""
        changed: HostArrays = {}
        for (owner, _, views), old in zip(self._memories.values(), before, strict=True):
            change = np.asarray(self._host(owner.grad) - old).reshape(-1)
            changed |= {name: change[entries] for name, entries in views.items() if change[entries].any()}
        return changed


def _places(x: Any, base: Any, numbers: HostArray) -> HostArray | None:
    """The numbers of x's entries within base, in x's shape; None if x does not lie in base's memory."""
    if type(x) is not type(base) or x.dtype != base.dtype or x.size == 0 or _address(base) < 0:
        return None
    offset = _address(x) - _address(base)
    if not 0 <= offset < base.nbytes:
        return None
    wide = numbers.itemsize
    strides = tuple(stride // x.itemsize * wide for stride in x.strides)
    try:
        return np.ndarray(x.shape, np.int64, numbers, offset // x.itemsize * wide, strides)
    except ValueError:  # it reaches beyond
        return None


def _address(x: Any) -> int:
    """The address of the first entry; that of no array if the library does not tell."""
    if isinstance(x, np.ndarray):
        return int(x.__array_interface__["data"][0])
    return int(getattr(getattr(x, "data", None), "ptr", -1))


def _part(name: str, places: HostArray, entries: HostArray) -> ParameterPart | None:
    inside = np.isin(places, entries)
    if not inside.any():
        return None
    if inside.all():
        turned = places.ndim == 2 and not np.array_equal(places, entries) and np.array_equal(places, entries.T)
        return ParameterPart(name, None, turned)
    columns = np.flatnonzero(inside.any(axis=tuple(range(inside.ndim - 1))))
    return ParameterPart(name, (int(columns[0]), int(columns[-1]) + 1), False)
