"""From a model whose gradient is wrong to the first part that is to blame.

The forward is run once with every layer and every operation listening, so that each call is known with
its inputs, and which call made it. Then the calls are checked from the outside in: a call whose gradient
is right clears everything inside it; of a wrong one, the calls that it made are checked in the order in
which backward meets them (last made, first met). The path ends at an operation, or at a layer whose parts
are all right and which therefore puts them together wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from npformer.backend import Ops, Pair
from npformer.errors import ConfigError
from npformer.layers import Layer
from npformer.proof.check import gradcheck
from npformer.proof.report import WRONG, Report
from npformer.proof.subject import LayerSubject


@dataclass
class Call:
    """One call of a layer or an operation during the forward, with the calls that it made."""

    name: str  # dotted, within the model
    target: Any  # the layer, or the operation's Pair
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    parts: list[Call] = field(default_factory=list)

    def check(self, explain: bool = False, complex_step: bool = True) -> Report:
        """The gradient check of this call alone, at the inputs that it was given; in passing, or in full."""
        return gradcheck(
            self.target,
            *self.inputs,
            name=self.name,
            elementwise=None if explain else False,
            explain=explain,
            complex_step=complex_step,
            allow_length_one=True,
            **self.options,
        )


@dataclass(frozen=True)
class Bisection:
    """The calls from the whole to the first wrong part, outside first, with their reports; empty if all is right."""

    path: tuple[tuple[Call, Report], ...]

    @property
    def ok(self) -> bool:
        """Whether there was nothing to find."""
        return not self.path

    def __str__(self) -> str:
        if self.ok:
            return "every gradient is right: there is nothing to look for"
        lines = []
        for depth, (call, report) in enumerate(self.path):
            wrong = sum(row.verdict == WRONG for row in report.rows)
            lines.append(f"{'  ' * depth}{call.name}: {wrong} of {len(report.rows)} gradients wrong")
        call, report = self.path[-1]
        lines += ["", f"the first wrong part is {call.name}:", str(report)]
        if call.parts:
            lines.append("all of its parts are right: it puts them together wrongly")
        return "\n".join(lines)


def bisect(target: Layer, *inputs: Any, complex_step: bool = True, **options: Any) -> Bisection:
    """Find the first wrong part of a layer or model, its forward called with these inputs and options.

    complex_step as for gradcheck. Nothing of target is changed. Raises ConfigError for anything but a layer.
    """
    if not isinstance(target, Layer):
        raise ConfigError(
            f"target: expected a layer or model, which has parts, got {type(target).__name__}; use npf.gradcheck"
        )
    checked = LayerSubject(target, inputs, options, target.backend.device)
    with checked.at_its_point() as placed, listening(target) as root:
        target.forward(*placed, **options)
    path: list[tuple[Call, Report]] = []
    if _descend(root.parts[0], path, complex_step):
        call, _ = path.pop()
        path.append((call, call.check(explain=True, complex_step=complex_step)))
    return Bisection(tuple(path))


def _descend(call: Call, path: list[tuple[Call, Report]], complex_step: bool) -> bool:
    """Put call, and the first wrong part in it, on the path if its gradient is wrong; says whether it is."""
    report = call.check(complex_step=complex_step)
    if all(row.verdict != WRONG for row in report.rows):
        return False
    path.append((call, report))
    any(_descend(part, path, complex_step) for part in reversed(call.parts))  # stops at the first that is wrong
    return True


@contextmanager
def listening(target: Layer) -> Iterator[Call]:
    """For a while, every forward of target, of the layers in it and of their operations is written down."""
    root = Call("", None, (), {})
    stack = [root]
    layers = dict(_layers(target, ""))
    backends = {name: layer.backend for name, layer in layers.items()}
    own_forwards = {name: vars(layer).get("forward") for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            shown = f"{type(target).__name__}{'.' if name else ''}{name}"
            ops = {
                op: pair._replace(forward=partial(_heard, stack, f"{shown}.{op}", pair, pair.forward))
                for op, pair in vars(layer.backend.ops).items()
            }
            layer.backend = replace(layer.backend, ops=Ops(**ops))
            vars(layer)["forward"] = partial(_heard, stack, shown, layer, layer.forward)
        yield root
    finally:
        for name, layer in layers.items():
            vars(layer).pop("forward", None)
            if own_forwards[name] is not None:
                vars(layer)["forward"] = own_forwards[name]
            layer.backend = backends[name]


def _heard(stack: list[Call], name: str, target: Layer | Pair, forward: Any, *inputs: Any, **options: Any) -> Any:
    """Call forward, and write the call down as part of the call that is being made."""
    call = Call(name, target, inputs, options)
    stack[-1].parts.append(call)
    stack.append(call)
    try:
        return forward(*inputs, **options)
    finally:
        stack.pop()


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
