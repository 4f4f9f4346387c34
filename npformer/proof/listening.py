"""Records every call of a layer or an operation in a forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from npformer.backend import Ops, Pair
from npformer.layers import Layer
from npformer.layers.residual import is_own_layer_norm
from npformer.proof.oracles import COMPLEX_H
from npformer.typing import HostArray


@dataclass
class Call:
    """One call of a layer or an operation during the forward, with the calls inside it."""

    name: str  # dotted, within the model
    target: Any  # the layer, or the operation's Pair
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    parts: list[Call] = field(default_factory=list)
    number: int = -1  # in the order in which calls begin
    output: Any = None
    cache: Any = None
    upstream: Any = None  # its backward's upstream gradient


@contextmanager
def listening(target: Layer, move: tuple[int, int, HostArray] | None = None) -> Iterator[Call]:
    """Within this context, every forward of target, of the layers in it and of their operations is recorded.

    So are the outputs and, when it runs, each backward's upstream gradient. A LayerNorm is recorded by its operations,
    since one kernel may compute it together with the sum before it. move: (number of a call, number of its output, a
    direction): that output is moved along the direction by an imaginary step, for the slope of everything after it.
    """
    root = Call("", None, (), {})
    ear = _Ear([root], [], move)
    layers = dict(_layers(target, ""))
    backends = {name: layer.backend for name, layer in layers.items()}
    own = {name: {m: vars(layer).get(m) for m in ("forward", "backward")} for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            shown = f"{type(target).__name__}{'.' if name else ''}{name}"
            ops = {
                op: pair._replace(
                    forward=partial(ear.forward, f"{shown}.{op}", pair, pair.forward),
                    backward=partial(ear.backward, pair.backward),
                )
                for op, pair in vars(layer.backend.ops).items()
            }
            vars(layer)["backend"] = replace(layer.backend, ops=Ops(**ops))  # does not change the model's version
            if layer is target or not is_own_layer_norm(layer):
                vars(layer)["forward"] = partial(ear.forward, shown, layer, layer.forward)
                vars(layer)["backward"] = partial(ear.backward, layer.backward)
        yield root
    finally:
        for name, layer in layers.items():
            for method, before in own[name].items():
                vars(layer).pop(method, None)
                if before is not None:
                    vars(layer)[method] = before
            vars(layer)["backend"] = backends[name]


@dataclass
class _Ear:
    """Replaces forward and backward methods: it calls them and records the calls."""

    stack: list[Call]
    calls: list[Call]
    move: tuple[int, int, HostArray] | None

    def forward(self, name: str, target: Layer | Pair, forward: Any, *inputs: Any, **options: Any) -> Any:
        """Call forward, and record the call within the current one."""
        call = Call(name, target, inputs, options, number=len(self.calls))
        self.calls.append(call)
        self.stack[-1].parts.append(call)
        self.stack.append(call)
        try:
            found = forward(*inputs, **options)
        finally:
            self.stack.pop()
        if not isinstance(found, tuple) or len(found) != 2:
            return found
        call.output, call.cache = found
        if self.move is not None and self.move[0] == call.number:
            return _moved(found[0], *self.move[1:]), found[1]
        return found

    def backward(self, backward: Any, dy: Any, cache: Any, *more: Any, **options: Any) -> Any:
        """Call backward, and record its upstream gradient with its call."""
        call = next((call for call in self.calls if call.cache is cache and cache is not None), None)
        if call is not None:
            call.upstream = dy
        return backward(dy, cache, *more, **options)


def _moved(y: Any, which: int, direction: HostArray) -> Any:
    """y, or one of several outputs, moved by an imaginary step."""
    if isinstance(y, tuple):
        return tuple(_moved(part, 0, direction) if i == which else part for i, part in enumerate(y))
    return y + 1j * COMPLEX_H * direction


def _layers(layer: Layer, name: str) -> Iterator[tuple[str, Layer]]:
    """A layer and all layers in it, by dotted name, each object once under its first name."""
    seen: set[int] = set()

    def walk(layer: Layer, name: str) -> Iterator[tuple[str, Layer]]:
        if id(layer) not in seen:
            seen.add(id(layer))
            yield name, layer
            for member, part in layer._members():
                if isinstance(part, Layer):
                    yield from walk(part, f"{name}.{member}" if name else member)

    yield from walk(layer, name)
