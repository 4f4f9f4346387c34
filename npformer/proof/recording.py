"""One forward and one backward of a target with every call kept: what ``trace`` shows and ``explain`` asks.

L is the cross-entropy of the output with given targets, or else Σ dy·y with an upstream gradient dy. Everything runs in
float64 with the plain kernels (``in_float64.py``). ``record.py`` makes recordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN
from npformer.errors import ConfigError
from npformer.layers import Layer
from npformer.proof.in_float64 import in_float64
from npformer.proof.inputs import as_tuple, like, parameter_names
from npformer.proof.listening import Call, Ear, Watch, listening
from npformer.proof.parameter_parts import Part
from npformer.proof.subject import NOTHING_REPLACED, LayerSubject, PairSubject
from npformer.proof.trace_lines import Frame
from npformer.typing import HostArray, HostArrays

#: The operations that add a sub-layer's output to the stream; their first two gradients go past it, and into it.
SUMS = ("residual", "add_norm", "post_norm")
#: The operation of the loss, which is the last call of a recording with targets.
LOSS = "cross_entropy"


class Loss(NamedTuple):
    """The cross-entropy at the end: its arguments after the logits."""

    targets: Any  # token ids or classes, on the device
    ignore_index: int | None
    label_smoothing: float


@dataclass
class Seen:
    """A call's arrays as they were when they were passed, and what became of its parameters."""

    inputs: tuple[Any, ...] = ()
    output: Any = None
    cache: Any = None
    upstream: Any = None
    gradients: Any = None
    added: HostArrays = field(default_factory=dict)  # parameter -> what this call itself added to its gradient
    params: dict[int, list[Part]] = field(default_factory=dict)  # number of an input -> the parameters in it
    forward: Frame | None = None  # its lines
    backward: Frame | None = None


@dataclass(frozen=True)
class Residual:
    """A sum of the residual stream: in backward the gradient goes past the sub-layer, and into it."""

    name: str  # of the sub-layer
    call: Call  # the operation that adds
    through: Call | None  # the sub-layer
    past: HostArray  # the gradient that goes past it
    into: HostArray  # the gradient that goes into it


@dataclass(eq=False)
class Recording:
    """Every call of one forward and backward. Made by ``record``."""

    target: Any
    kind: str  # "operation", "layer" or "model"
    checked: LayerSubject | PairSubject
    how: Loss | None
    upstream: tuple[HostArray, ...] = ()  # of the target's output
    calls: list[Call] = field(default_factory=list)  # in the order in which their forwards begin
    seen: list[Seen] = field(default_factory=list)  # one for each call
    loss: float = 0.0  # L
    gradients: HostArrays = field(default_factory=dict)  # of parameters and float inputs, by name

    @property
    def values(self) -> HostArrays:
        """Parameters and float inputs, by name."""
        return self.checked.tensors

    @property
    def residuals(self) -> list[Residual]:
        """The sums of the residual stream, in forward order; the second of one name is called "NAME (2)"."""
        found: list[Residual] = []
        for one in map(self._residual, self.calls):
            if one is not None:
                uses = sum(one.name == other.name.partition(" (")[0] for other in found)
                found.append(replace(one, name=f"{one.name} ({uses + 1})") if uses else one)
        return found

    def value(self, replaced: Mapping[str, HostArray] = NOTHING_REPLACED) -> Any:
        """L with some parameters or inputs replaced by float64 or complex128 arrays."""
        with in_float64(self.target, self.checked):
            outputs = self.checked.outputs(replaced)
            if self.how is not None:
                logits = self.checked.device.array(outputs[0], str(outputs[0].dtype))
                return PLAIN.cross_entropy.forward(logits, *self.how)[0]
            return sum(np.sum(r * y) for r, y in zip(self.upstream, outputs, strict=True))

    def _residual(self, call: Call) -> Residual | None:
        gradients = call.gradients
        if call.operation not in SUMS or not isinstance(gradients, tuple):
            return None
        handed = call.inputs[1]
        through = next((one for one in reversed(self.calls[: call.number]) if one.output is handed), None)
        while through is not None and through.parent is not None and through.parent.output is handed:
            through = through.parent
        host = self.checked.device.host
        name = shown_name(call if through is None else through)
        return Residual(name, call, through, host(gradients[0]), host(gradients[1]))


def inputs_of(call: Call) -> list[str]:
    """The names of a call's inputs."""
    is_pair = isinstance(call.target, tuple)
    names = parameter_names(call.target[0] if is_pair else type(call.target).forward, len(call.inputs) + (not is_pair))
    return names if is_pair else names[1:]


def shown_name(call: Call) -> str:
    """The name of a call within its target: "" for the target itself."""
    return call.name.partition(".")[2]


@contextmanager
def running(found: Recording, watch: Watch, known: Sequence[Call] = ()) -> Iterator[tuple[Ear, list[Any]]]:
    """Within this context the target is ready to run and is listened to; yields the ear, and the inputs."""
    with in_float64(found.target, found.checked) as placed, listening(found.target, watch=watch, known=known) as ear:
        yield ear, placed


def forward(found: Recording, ear: Ear, placed: list[Any]) -> Any:
    """The target's output. The loss, if there is one, is a call of its own after it."""
    target, title, options = found.target, type(found.target).__name__, found.checked.options
    if isinstance(target, Layer):
        y, _ = target.forward(*placed, **options)
    else:
        operation = next((name for name, pair in vars(PLAIN).items() if pair is target), "")
        y, _ = ear.forward(title, target, found.checked.target.forward, *placed, _operation=operation, **options)
    if found.how is not None:
        if isinstance(y, tuple | list):
            raise ConfigError(f"targets: expected a target with one output, the logits, got {len(y)} outputs")
        pair = PLAIN.cross_entropy
        ear.forward(f"{title}.loss", pair, pair.forward, y, *found.how, _operation=LOSS)
    return y


def backward(found: Recording, ear: Ear, upstream: tuple[HostArray, ...] | None) -> HostArrays:
    """The gradients of parameters and inputs; upstream None: the recorded one."""
    first, target, device = ear.calls[0], found.target, found.checked.device
    if found.how is not None and upstream is None:
        dy = ear.pair_backward(PLAIN.cross_entropy, device.array(np.ones(()), "float64"), ear.calls[-1].cache)
    else:
        dy = like(first.output, [device.array(part, "float64") for part in upstream or found.upstream])
    if isinstance(target, Layer):
        gradients = target.backward(dy, first.cache)
    else:
        gradients = ear.backward(target, found.checked.target.backward, dy, first.cache)
    named = found.checked.inputs.named(gradients)
    return named | {name: np.array(device.host(parameter.grad)) for name, parameter in found.checked.parameters.items()}


def loss_of(found: Recording, ear: Ear, y: Any) -> Any:
    """L after a forward that returned y: what its last call returned, or Σ dy·y."""
    host = found.checked.device.host
    if found.how is not None:
        return host(ear.calls[-1].output)
    return sum(np.sum(r * host(part)) for r, part in zip(found.upstream, as_tuple(y), strict=True))
