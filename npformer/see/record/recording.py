"""One forward and one backward of a target with every call kept: what ``trace`` shows and ``explain`` asks.

L is the cross-entropy of the output with given targets, or else Σ dy·y with an upstream gradient dy. Everything runs in
float64 with the plain kernels (``in_float64.py``). A target runs once; what each call got and gave is kept as it was
at that moment. The target and its L are one subject of a gradient check (``check/subject.py``), so L and its
gradients can be asked for at other numbers, too, or with less of a gradient.

Backward is linear in the upstream gradient: a re-run with some branches set to 0 gives exactly the part of a number
that comes through the others. Within a ``session`` the target stays ready for such runs: each gets copies of the caches
that the one forward made.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from npformer.backend import PLAIN, Device
from npformer.check.in_float64 import in_float64
from npformer.check.inputs import as_tuple, copied, host64, is_array, like, place
from npformer.check.subject import NOTHING_REPLACED, Subject, Upstream
from npformer.errors import ConfigError, ShapeError
from npformer.layers import CacheStack, Layer
from npformer.see.record.calls import (
    Call,
    CallRecorder,
    Hooks,
    ParameterPart,
    Parameters,
    gradient_names,
    listening,
)
from npformer.see.record.lines import Frame, LineTracer, tracing_lines
from npformer.typing import HostArray, HostArrays, Tensors

#: The operations that add a sub-layer's output to the stream; their first two gradients go past it, and into it.
SUMS = ("residual", "add_norm", "post_norm")
#: The operation of the loss, which is the last call of a recording with targets.
LOSS = "cross_entropy"


@dataclass(frozen=True)
class Setting:
    """What is recorded: a layer or model, what goes into it, and what its loss is.

    targets: token ids, and the loss is their cross-entropy. None: L = Σ r·y with random numbers r, as in a gradient
    check. labels: what the tokens of "source", "target_in" and "target_out" are called.
    """

    name: str
    target: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    targets: HostArray | None = None
    labels: Mapping[str, list[list[str]]] = field(default_factory=dict)
    pieces: tuple[str, ...] = ()  # the vocabulary, by token id
    classes: tuple[str, ...] = ()  # the outputs, by class, if they are not the vocabulary's pieces
    note: str = ""  # about the data, for the reader
    title: str = ""  # of a page; "": the name

    @property
    def shown(self) -> dict[str, Any]:
        """The name and the tokens of its trace."""
        tokens = {**self.labels, "pieces": [list(self.classes or self.pieces)]} if self.labels else None
        return {"name": self.title or self.name, "tokens": tokens}

    @property
    def pad_id(self) -> int:
        """The token id that pads."""
        return int(getattr(getattr(self.target, "config", None), "pad_id", 0))


@dataclass
class Seen:
    """A call's arrays as they were when they were passed, and what became of its parameters."""

    inputs: tuple[Any, ...] = ()
    output: Any = None
    cache: Any = None
    upstream: Any = None
    gradients: Any = None
    added: HostArrays = field(default_factory=dict)  # parameter -> what this call itself added to its gradient
    params: dict[int, list[ParameterPart]] = field(default_factory=dict)  # number of an input -> the parameters in it
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


class Recording:
    """Every call of one forward and backward. Made by ``prepared``; within a ``session`` its target can run again."""

    calls: list[Call]  # in the order in which their forwards begin
    live: list[Call]  # the calls of the last run, by number
    loss: float  # L
    gradients: HostArrays  # of parameters and float inputs, by name

    def __init__(self, setting: Setting, checked: Subject, how: tuple[Any, ...] | None) -> None:
        #: how: the arguments of the cross-entropy at the end, after the logits; None: there is none.
        self.setting, self.target, self.checked, self.how = setting, setting.target, checked, how
        is_pair = checked.is_pair
        self.kind = "operation" if is_pair else "model" if hasattr(self.target, "config") else "layer"
        #: The gradient of what the subject returns: of the target's output, or 1, that of the loss.
        self.upstream: Upstream = () if how is None else (np.ones(()),)
        self.seen: list[Seen] = []  # one for each call
        self._recorder: CallRecorder | None = None
        self._plain, checked.target = checked.target, self

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, Any]:
        """What the subject runs: the target and, as a call of its own after it, the loss if there is one."""
        assert self._recorder is not None
        target, title = self.target, type(self.target).__name__
        if isinstance(target, Layer):
            y, cache = target.forward(*inputs, **options)
        else:
            operation = next((name for name, pair in vars(PLAIN).items() if pair is target), "")
            run = self._plain.forward
            y, cache = self._recorder.forward(title, target, run, *inputs, _operation=operation, **options)
        if self.how is None:
            return y, cache
        if isinstance(y, tuple | list):
            raise ConfigError(f"targets: expected a target with one output, the logits, got {len(y)} outputs")
        pair = PLAIN.cross_entropy
        loss, kept = self._recorder.forward(f"{title}.loss", pair, pair.forward, y, *self.how, _operation=LOSS)
        return loss, (cache, kept)

    def backward(self, dy: Any, cache: Any) -> Any:
        """The gradients of the target's inputs; those of its parameters are added where they live."""
        assert self._recorder is not None
        if self.how is not None:
            cache, kept = cache
            dy = self._recorder.pair_backward(PLAIN.cross_entropy, dy, kept)
        if isinstance(self.target, Layer):
            return self.target.backward(dy, cache)
        return self._recorder.backward(self.target, self._plain.backward, dy, cache)

    @property
    def backward_order(self) -> list[Call]:
        """The calls of operations in the order of their backward."""
        came = (call for call in self.calls if call.operation and call.backward_time is not None)
        return sorted(came, key=lambda call: call.backward_time or (0, 0))

    @property
    def residuals(self) -> list[Residual]:
        """The sums of the residual stream, in forward order; the second of one name is called "NAME (2)"."""
        residuals: list[Residual] = []
        for one in map(self._residual, self.calls):
            if one is not None:
                uses = sum(one.name == other.name.partition(" (")[0] for other in residuals)
                residuals.append(replace(one, name=f"{one.name} ({uses + 1})") if uses else one)
        return residuals

    def _residual(self, call: Call) -> Residual | None:
        gradients = call.gradients
        if call.operation not in SUMS or not isinstance(gradients, tuple):
            return None
        handed = call.inputs[1]
        through = next((one for one in reversed(self.calls[: call.number]) if one.output is handed), None)
        while through is not None and through.parent is not None and through.parent.output is handed:
            through = through.parent
        host = self.checked.device.host
        name = (call if through is None else through).shown_name
        return Residual(name, call, through, host(gradients[0]), host(gradients[1]))

    def value(self, replaced: Tensors = NOTHING_REPLACED, hooks: Hooks | None = None) -> Any:
        """L with some parameters or inputs replaced by real or complex numbers; or with what hooks change."""
        with self._apart(hooks):
            if replaced:
                outputs = self.checked.outputs(replaced)
            else:
                y, _ = self.forward(*self.checked.inputs.placed({}), **self.checked.options)
                outputs = tuple(map(self.checked.device.host, as_tuple(y)))
        return sum(np.sum(r * y) for r, y in zip(self.upstream, outputs, strict=True))

    def gradients_at(self, replaced: Tensors, hooks: Hooks | None = None) -> tuple[HostArrays, list[Call]]:
        """The gradients with some parameters or inputs replaced, or with what hooks change; and the calls."""
        with self._apart(hooks) as recorder:
            return self.checked.gradients(self.upstream, replaced), recorder.calls

    def run(self, hooks: Hooks | None = None, dtype: str = "float64") -> HostArrays:
        """Run the backward again, within a session; the gradients of parameters and inputs, by name.

        dtype: of the gradients of parameters, complex128 if hooks hand on complex numbers.
        """
        assert self._recorder is not None
        copies: dict[int, Any] = {}
        for call, cache in zip(self.live, self._caches, strict=True):
            call.cache, call.backward_time = unspent(cache, copies), None
        first, last = self.live[0].cache, self.live[-1].cache
        for owner in self.checked.owners.values():
            owner.grad = self.checked.device.zeros(owner.data.shape, dtype)
        self._recorder.hooks = hooks or Hooks()
        return self._pull(first if self.how is None else (first, last))

    def _pull(self, cache: Any) -> HostArrays:
        device, y = self.checked.device, self.calls[0 if self.how is None else -1].output
        gradients = self.backward(like(y, [device.array(part, "float64") for part in self.upstream]), cache)
        named = {name: np.array(device.host(parameter.grad)) for name, parameter in self.checked.parameters.items()}
        return self.checked.inputs.named(gradients) | named

    @contextmanager
    def _running(self, hooks: Hooks, known: Sequence[Call] = ()) -> Iterator[tuple[list[Any], CallRecorder]]:
        """Within this context the target is ready to run and is listened to; yields the inputs and the recorder."""
        ready = in_float64(self.target, self.checked)
        with ready as placed, listening(self.target, hooks=hooks, known=known) as recorder:
            self._recorder = recorder
            try:
                yield placed, recorder
            finally:
                self._recorder = None

    @contextmanager
    def _apart(self, hooks: Hooks | None) -> Iterator[CallRecorder]:
        """Within this context the target can run, and its calls are kept apart from those of the session, if any."""
        recorder = self._recorder
        if recorder is None:
            with self._running(hooks or Hooks(), self.calls) as (_, recorder):
                yield recorder
            return
        before = recorder.calls, recorder.hooks
        recorder.calls, recorder.hooks = [], hooks or Hooks()
        try:
            yield recorder
        finally:
            recorder.calls, recorder.hooks = before

    @contextmanager
    def opened(self, lines: bool, upstream: Any, seed: int) -> Iterator[None]:
        """Record; within this context the target can run again."""
        target = self.target
        kinds = {type(layer) for layer in (target.all_layers() if isinstance(target, Layer) else [target])}
        methods = [vars(kind)[way] for kind in kinds for way in ("forward", "backward") if way in vars(kind)]
        functions = target if isinstance(target, tuple) else methods  # a user's, whose lines are shown
        with self._running(Hooks()) as (placed, recorder):
            with tracing_lines(functions) if lines else nullcontext(LineTracer(())) as tracer:
                recorder.hooks = _CopyKeeper(self, tracer)
                self.calls = recorder.calls
                y, cache = self.forward(*placed, **self.checked.options)
                if self.how is None:
                    self.upstream = _upstream(y, upstream, seed, self.checked.device)
                copies: dict[int, Any] = {}
                self._caches = [unspent(call.cache, copies) for call in self.calls]
                self.gradients = self._pull(cache)
                host = self.checked.device.host
                self.loss = float(sum(np.sum(r * host(x)) for r, x in zip(self.upstream, as_tuple(y), strict=True)))
            recorder.known, recorder.hooks = self.calls, Hooks()
            self.live = recorder.calls = list(map(copy.copy, self.calls))
            yield

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Within this context the target can run again, whether or not this is within a session."""
        if self._recorder is not None:
            yield
            return
        with self._running(Hooks(), self.calls) as (placed, recorder):
            self.forward(*placed, **self.checked.options)
            self.live, copies = recorder.calls, dict[int, Any]()
            self._caches = [unspent(call.cache, copies) for call in self.live]
            yield


@contextmanager
def session(setting: Setting, lines: bool = False) -> Iterator[Recording]:
    """Within this context a recording of a setting can be asked; its target is then as before.

    lines: keep the values after each source line, for a page.
    """
    recording = prepared(setting, None if setting.targets is None else setting.pad_id)
    with recording.opened(lines, None, 0):
        yield recording


def prepared(
    setting: Setting, ignore_index: int | None, smoothing: float = 0.0, names: Sequence[str] | None = None
) -> Recording:
    """A recording of a setting that has not run yet; ignore_index and smoothing: of the loss, if there are targets."""
    checked = Subject(setting.target, setting.inputs, setting.options, None, names, moved=False)
    how = None
    if setting.targets is not None:
        how = place(np.asarray(setting.targets), checked.device), ignore_index, smoothing
    return Recording(setting, checked, how)


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


class _CopyKeeper(Hooks):
    """Keeps copies, since arrays may be changed later, and gives each call its lines and its share of the gradients."""

    def __init__(self, recording: Recording, tracer: LineTracer) -> None:
        self.seen, self.tracer, self.host = recording.seen, tracer, recording.checked.device.host
        self.parameters = Parameters(recording.checked.parameters, recording.checked.device)
        self._running: list[Call | None] = []  # backwards that are running
        self._gradients: list[HostArray] | None = None  # of the parameters when they were looked at last

    def inputs(self, call: Call, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        params = {i: parts for i, x in enumerate(inputs) if is_array(x) and (parts := self.parameters.in_array(x))}
        self.seen.append(Seen(inputs=kept(inputs), params=params))
        self.tracer.begin()
        return inputs

    def outputs(self, call: Call, output: Any) -> Any:
        seen = self.seen[call.number]
        seen.forward = next(iter(self.tracer.end()), None)
        seen.output, seen.cache = kept(output), kept(call.cache)
        return output

    def entering(self, call: Call | None, dy: Any) -> Any:
        self._note_direct()
        self._running.append(call)
        if call is not None:
            self.seen[call.number].upstream = kept(dy)
        self.tracer.begin()
        return dy

    def leaving(self, call: Call | None, gradients: Any) -> Any:
        frame = next(iter(self.tracer.end()), None)
        if call is not None:
            seen = self.seen[call.number]
            seen.backward, seen.gradients = frame, kept(gradients)
            count = (0 if gradients is None else len(as_tuple(gradients))) + len(call.added)
            names, inputs = gradient_names(call.target, count) if call.added else [], call.input_names
            named = zip(names[count - len(call.added) :], call.added, strict=True)
            apart = [(seen.params.get(inputs.index(name), []), dx) for name, dx in named if dx is not None]
            if apart and all(parts for parts, _ in apart):  # else what has changed says it
                for parts, dx in apart:
                    _add(seen.added, {part.parameter: part.of(self.host(dx)) for part in parts})
                self._gradients = self.parameters.gradients()
        self._note_direct()
        self._running.pop()
        return gradients

    def _note_direct(self) -> None:
        """What was added to parameters since the last look belongs to the innermost known call that is running."""
        running = next((call for call in reversed(self._running) if call is not None), None)
        if self._gradients is not None and running is not None:
            _add(self.seen[running.number].added, self.parameters.changes(self._gradients))
        self._gradients = self.parameters.gradients()


def _add(total: HostArrays, more: HostArrays) -> None:
    for name, x in more.items():
        total[name] = total[name] + x if name in total else x


def kept(x: Any) -> Any:
    """x with copies of its arrays, also of those in tuples, lists, dicts and dataclasses."""
    if is_array(x):
        return copied(x)
    if is_dataclass(x) and not isinstance(x, type):
        changed = {f.name: kept(getattr(x, f.name)) for f in fields(x) if f.init and is_array(getattr(x, f.name))}
        return replace(x, **changed) if changed else x
    return _mapped(x, kept)


def unspent(cache: Any, copies: dict[int, Any]) -> Any:
    """A cache with copies of the containers that a backward empties; arrays and the caches of pairs stay the same."""
    if id(cache) not in copies:
        fresh = _mapped(list(cache) if isinstance(cache, CacheStack) else cache, partial(unspent, copies=copies))
        if isinstance(cache, CacheStack):
            stack = CacheStack.__new__(type(cache))
            vars(stack).update(vars(cache) | {"_entries": fresh})
            fresh = stack
        copies[id(cache)] = fresh
    return copies[id(cache)]


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    """A tuple, list or dict with its parts changed; a tuple whose parts stay, and anything else, is itself."""
    if isinstance(x, dict):
        return {key: change(part) for key, part in x.items()}
    if isinstance(x, list):
        return [change(part) for part in x]
    parts = [change(part) for part in x] if isinstance(x, tuple) else []
    if all(one is other for one, other in zip(parts, x if parts else (), strict=True)):
        return x
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
