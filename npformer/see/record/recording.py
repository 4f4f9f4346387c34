"""One forward and one backward of a target with every call kept: what ``trace`` shows and ``explain`` asks.

L is the cross-entropy of the output with given targets, or else Σ dy·y with an upstream gradient dy. Everything runs in
float64 with the plain kernels (``in_float64.py``). ``record`` runs a target once, and keeps what each call got and gave
as it was at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN, Device
from npformer.check.cases.op_samples import op_sample
from npformer.check.in_float64 import in_float64, plain_row
from npformer.check.inputs import as_tuple, copied, host64, is_array, like, place
from npformer.check.subject import NOTHING_REPLACED, Subject, Upstream
from npformer.errors import ConfigError, ShapeError
from npformer.layers import Layer
from npformer.see.record.lines import Frame, LineTracer, tracing_lines
from npformer.see.record.listening import Call, CallRecorder, Hooks, listening, shown_name
from npformer.see.record.parameter_parts import Parameters, Part
from npformer.typing import HostArray, HostArrays, Tensors

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
    checked: Subject
    how: Loss | None
    upstream: Upstream = ()  # of the target's output
    calls: list[Call] = field(default_factory=list)  # in the order in which their forwards begin
    seen: list[Seen] = field(default_factory=list)  # one for each call
    loss: float = 0.0  # L
    gradients: HostArrays = field(default_factory=dict)  # of parameters and float inputs, by name

    @property
    def residuals(self) -> list[Residual]:
        """The sums of the residual stream, in forward order; the second of one name is called "NAME (2)"."""
        residuals: list[Residual] = []
        for one in map(self._residual, self.calls):
            if one is not None:
                uses = sum(one.name == other.name.partition(" (")[0] for other in residuals)
                residuals.append(replace(one, name=f"{one.name} ({uses + 1})") if uses else one)
        return residuals

    def value(self, replaced: Tensors = NOTHING_REPLACED) -> Any:
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


@contextmanager
def running(recording: Recording, hooks: Hooks, known: Sequence[Call] = ()) -> Iterator[tuple[CallRecorder, list[Any]]]:
    """Within this context the target is ready to run and is listened to; yields the recorder, and the inputs."""
    with (
        in_float64(recording.target, recording.checked) as placed,
        listening(recording.target, hooks=hooks, known=known) as recorder,
    ):
        yield recorder, placed


def forward(recording: Recording, recorder: CallRecorder, placed: list[Any]) -> Any:
    """The target's output. The loss, if there is one, is a call of its own after it."""
    target, title, options = recording.target, type(recording.target).__name__, recording.checked.options
    if isinstance(target, Layer):
        y, _ = target.forward(*placed, **options)
    else:
        operation = next((name for name, pair in vars(PLAIN).items() if pair is target), "")
        y, _ = recorder.forward(
            title, target, recording.checked.target.forward, *placed, _operation=operation, **options
        )
    if recording.how is not None:
        if isinstance(y, tuple | list):
            raise ConfigError(f"targets: expected a target with one output, the logits, got {len(y)} outputs")
        pair = PLAIN.cross_entropy
        recorder.forward(f"{title}.loss", pair, pair.forward, y, *recording.how, _operation=LOSS)
    return y


def backward(recording: Recording, recorder: CallRecorder, upstream: Upstream | None) -> HostArrays:
    """The gradients of parameters and inputs; upstream None: the recorded one."""
    first, target, device = recorder.calls[0], recording.target, recording.checked.device
    if recording.how is not None and upstream is None:
        dy = recorder.pair_backward(PLAIN.cross_entropy, device.array(np.ones(()), "float64"), recorder.calls[-1].cache)
    else:
        dy = like(first.output, [device.array(part, "float64") for part in upstream or recording.upstream])
    if isinstance(target, Layer):
        gradients = target.backward(dy, first.cache)
    else:
        gradients = recorder.backward(target, recording.checked.target.backward, dy, first.cache)
    return recording.checked.inputs.named(gradients) | {
        name: np.array(device.host(parameter.grad)) for name, parameter in recording.checked.parameters.items()
    }


def loss_of(recording: Recording, recorder: CallRecorder, y: Any) -> Any:
    """L after a forward that returned y: what its last call returned, or Σ dy·y."""
    host = recording.checked.device.host
    if recording.how is not None:
        return host(recorder.calls[-1].output)
    return sum(np.sum(r * host(part)) for r, part in zip(recording.upstream, as_tuple(y), strict=True))


def record(
    target: Any,
    *inputs: Any,
    targets: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    upstream: Any = None,
    names: Sequence[str] | None = None,
    lines: bool = True,
    seed: int = 0,
    **options: Any,
) -> Recording:
    """Run target forward and backward once, and keep every call. target is not changed.

    target, inputs, names and options as for ``npf.gradcheck``; an operation may also be given by its name or its row,
    and without inputs it runs on its sample.
    targets, ignore_index, label_smoothing: of the loss. upstream: the gradient of the output instead, an array or a
    tuple; without both it is random, drawn from seed. lines: keep the values after each source line. Raises
    ConfigError for another target or for targets beside upstream, ShapeError for an upstream of another shape.
    """
    if targets is not None and upstream is not None:
        raise ConfigError(
            "upstream: expected none beside targets, whose loss makes the upstream gradient; leave one out"
        )
    row = plain_row(target)
    if isinstance(target, str) and row is None:
        raise ConfigError(f"target: expected the name of an operation, got {target!r}; one of {', '.join(vars(PLAIN))}")
    if row is not None:
        target = getattr(PLAIN, row.name)
        inputs = inputs or op_sample(row.name).inputs
    checked = Subject(target, inputs, options, None, names, moved=False)
    kind = "operation" if checked.is_pair else "model" if hasattr(target, "config") else "layer"
    how = None
    if targets is not None:
        how = Loss(place(np.asarray(targets), checked.device), ignore_index, label_smoothing)
    recording = Recording(target, kind, checked, how)
    kinds = {type(layer) for layer in (target.all_layers() if isinstance(target, Layer) else [target])}
    methods = [vars(kind)[way] for kind in kinds for way in ("forward", "backward") if way in vars(kind)]
    functions = target if isinstance(target, tuple) else methods  # a user's, whose lines are shown
    with tracing_lines(functions) if lines else nullcontext(LineTracer(())) as tracer:
        hooks = _Noting(recording, tracer)
        with running(recording, hooks) as (recorder, placed):
            recording.calls = recorder.calls
            hooks.parameters = Parameters(checked.parameters, checked.device)
            y = forward(recording, recorder, placed)
            if how is None:
                recording.upstream = _upstream(y, upstream, seed, checked.device)
            recording.gradients = backward(recording, recorder, None)
            recording.loss = float(loss_of(recording, recorder, y))
    return recording


def _upstream(y: Any, upstream: Any, seed: int, device: Device) -> tuple[HostArray, ...]:
    """dy for each output: given, or the first of those that ``npf.gradcheck`` draws."""
    shapes = [tuple(np.shape(part)) for part in as_tuple(y)]
    if upstream is None:
        rng = np.random.default_rng([seed, 5, 0])
        return tuple(np.asarray(rng.normal(size=shape)) for shape in shapes)
    parts = tuple(host64(part, device) for part in as_tuple(upstream))
    got = [part.shape for part in parts]
    if got != shapes:
        raise ShapeError(f"upstream: expected {shapes}, the shapes of the outputs, got {got}")
    return parts


class _Noting(Hooks):
    """Keeps copies, since arrays may be changed later, and gives each call its lines and its share of the gradients."""

    def __init__(self, recording: Recording, tracer: LineTracer) -> None:
        self.recording, self.tracer = recording, tracer
        self.parameters = Parameters({}, recording.checked.device)
        self._running: list[Call | None] = []  # backwards that are running
        self._gradients: list[HostArray] | None = None  # of the parameters when they were looked at last

    def inputs(self, call: Call, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        params = {i: parts for i, x in enumerate(inputs) if is_array(x) and (parts := self.parameters.in_array(x))}
        self.recording.seen.append(Seen(inputs=kept(inputs), params=params))
        self.tracer.begin()
        return inputs

    def outputs(self, call: Call, output: Any) -> Any:
        seen = self.recording.seen[call.number]
        seen.forward = next(iter(self.tracer.end()), None)
        seen.output, seen.cache = kept(output), kept(call.cache)
        return output

    def entering(self, call: Call | None, dy: Any) -> Any:
        self._note_direct()
        self._running.append(call)
        if call is not None:
            self.recording.seen[call.number].upstream = kept(dy)
        self.tracer.begin()
        return dy

    def leaving(self, call: Call | None, dy: Any, gradients: Any, into: Sequence[Any]) -> Any:
        frame = next(iter(self.tracer.end()), None)
        if call is not None:
            seen = self.recording.seen[call.number]
            seen.backward, seen.gradients = frame, kept(gradients)
            apart = [self.parameters.split(x, dx) for x, dx in zip(call.into, call.added, strict=True) if x is not None]
            if apart and all(apart):  # else what has changed says it
                for added in apart:
                    _add(seen.added, added)
                self._gradients = self.parameters.gradients()
        self._note_direct()
        self._running.pop()
        return gradients

    def _note_direct(self) -> None:
        """What was added to parameters since the last look belongs to the innermost known call that is running."""
        running = next((call for call in reversed(self._running) if call is not None), None)
        if self._gradients is not None and running is not None:
            _add(self.recording.seen[running.number].added, self.parameters.changes(self._gradients))
        self._gradients = self.parameters.gradients()


def _add(total: HostArrays, more: HostArrays) -> None:
    for name, x in more.items():
        total[name] = total[name] + x if name in total else x


def kept(x: Any) -> Any:
    """x with copies of its arrays, also of those in tuples, lists, dicts and dataclasses."""
    if is_array(x):
        return copied(x)
    if isinstance(x, tuple):
        return type(x)(*map(kept, x)) if hasattr(x, "_fields") else tuple(map(kept, x))
    if type(x) is list:
        return [kept(part) for part in x]
    if type(x) is dict:
        return {key: kept(part) for key, part in x.items()}
    if is_dataclass(x) and not isinstance(x, type):
        changed = {f.name: kept(getattr(x, f.name)) for f in fields(x) if f.init and is_array(getattr(x, f.name))}
        return replace(x, **changed) if changed else x
    return x
