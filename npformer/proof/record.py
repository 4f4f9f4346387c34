"""Makes recordings: runs a target once, and keeps what each call got and gave as it was at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from npformer.backend import PLAIN, Device
from npformer.errors import ConfigError, ShapeError
from npformer.layers import Layer
from npformer.proof.in_float64 import plain_row
from npformer.proof.inputs import as_tuple, copied, host64, is_array, place
from npformer.proof.listening import Call, Watch
from npformer.proof.op_samples import op_sample
from npformer.proof.parameter_parts import Parameters
from npformer.proof.recording import Loss, Recording, Seen, backward, forward, loss_of, running
from npformer.proof.subject import PairSubject, subject
from npformer.proof.trace_lines import LineTracer, tracing_lines
from npformer.typing import HostArray, HostArrays


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
    checked = subject(target, inputs, options, None, names, moved=False)
    kind = "operation" if isinstance(checked, PairSubject) else "model" if hasattr(target, "config") else "layer"
    how = None
    if targets is not None:
        how = Loss(place(np.asarray(targets), checked.device), ignore_index, label_smoothing)
    found = Recording(target, kind, checked, how)
    functions = target if isinstance(target, tuple) else _methods(target)
    with tracing_lines(functions) if lines else nullcontext() as tracer:
        watch = _Noting(found, tracer)
        with running(found, watch) as (ear, placed):
            found.calls = ear.calls
            watch.parameters = Parameters(checked.parameters, checked.device)
            y = forward(found, ear, placed)
            if how is None:
                found.upstream = _upstream(y, upstream, seed, checked.device)
            found.gradients = backward(found, ear, None)
            found.loss = float(loss_of(found, ear, y))
    return found


def _methods(target: Any) -> list[Any]:
    """The methods of a user's layer and of the layers in it, whose lines are shown."""
    layers = list(target.all_layers()) if isinstance(target, Layer) else [target]
    kinds = {type(layer) for layer in layers}
    return [vars(kind)[way] for kind in kinds for way in ("forward", "backward") if way in vars(kind)]


def _upstream(y: Any, given: Any, seed: int, device: Device) -> tuple[HostArray, ...]:
    """dy for each output: given, or the first of those that ``npf.gradcheck`` draws."""
    shapes = [tuple(np.shape(part)) for part in as_tuple(y)]
    if given is None:
        rng = np.random.default_rng([seed, 5, 0])
        return tuple(np.asarray(rng.normal(size=shape)) for shape in shapes)
    parts = tuple(host64(part, device) for part in as_tuple(given))
    got = [part.shape for part in parts]
    if got != shapes:
        raise ShapeError(f"upstream: expected {shapes}, the shapes of the outputs, got {got}")
    return parts


class _Noting(Watch):
    """Keeps copies, since arrays may be changed later, and gives each call its lines and its share of the gradients."""

    def __init__(self, found: Recording, tracer: LineTracer | None) -> None:
        self.found, self.tracer = found, tracer
        self.parameters = Parameters({}, found.checked.device)
        self._running: list[Call | None] = []  # backwards that are running
        self._gradients: list[HostArray] | None = None  # of the parameters when they were looked at last

    def inputs(self, call: Call, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        params = {i: parts for i, x in enumerate(inputs) if (parts := self._parts(x))}
        self.found.seen.append(Seen(inputs=kept(inputs), params=params))
        self._begin()
        return inputs

    def outputs(self, call: Call, output: Any) -> Any:
        seen = self.found.seen[call.number]
        seen.forward = self._end()
        seen.output, seen.cache = kept(output), kept(call.cache)
        return output

    def entering(self, call: Call | None, dy: Any) -> Any:
        self._note_direct()
        self._running.append(call)
        if call is not None:
            self.found.seen[call.number].upstream = kept(dy)
        self._begin()
        return dy

    def leaving(self, call: Call | None, dy: Any, gradients: Any, into: Sequence[Any]) -> Any:
        frame = self._end()
        if call is not None:
            seen = self.found.seen[call.number]
            seen.backward, seen.gradients = frame, kept(gradients)
            apart = [self.parameters.split(x, dx) for x, dx in zip(call.into, call.added, strict=True) if x is not None]
            if apart and all(apart):  # else what has changed says it
                for found in apart:
                    _add(seen.added, found)
                self._gradients = self.parameters.gradients()
        self._note_direct()
        self._running.pop()
        return gradients

    def _parts(self, x: Any) -> Any:
        return self.parameters.in_array(x) if is_array(x) else []

    def _note_direct(self) -> None:
        """What was added to parameters since the last look belongs to the innermost known call that is running."""
        running = next((call for call in reversed(self._running) if call is not None), None)
        if self._gradients is not None and running is not None:
            _add(self.found.seen[running.number].added, self.parameters.changes(self._gradients))
        self._gradients = self.parameters.gradients()

    def _begin(self) -> None:
        if self.tracer is not None:
            self.tracer.begin()

    def _end(self) -> Any:
        frames = self.tracer.end() if self.tracer is not None else []
        return frames[0] if frames else None


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
