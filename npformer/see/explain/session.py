"""A recorded target, open for re-runs of its backward.

Backward is linear in the upstream gradient: a re-run with some branches set to 0 gives exactly the part of a number
that comes through the others. The search for paths runs backward hundreds of times, so the forward runs once, and each
backward gets copies of its caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npformer.backend import PLAIN
from npformer.check.inputs import as_tuple
from npformer.check.subject import Subject
from npformer.layers import CacheStack
from npformer.see.record.listening import Call, CallRecorder, Hooks
from npformer.see.record.recording import Recording, Seen, backward, forward, loss_of, record, running
from npformer.typing import HostArray, HostArrays


@dataclass(frozen=True)
class Setting:
    """What is explained: a layer or model, what goes into it, and what its loss is.

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


class Session:
    """A recording with its target ready to run. Use ``session(setting)``."""

    def __init__(self, setting: Setting, recording: Recording, recorder: CallRecorder, placed: list[Any]) -> None:
        self.setting, self.recording, self._recorder, self._placed = setting, recording, recorder, placed
        assert not recording.checked.is_pair  # an operation alone has no place in a model
        self.checked: Subject = recording.checked
        self.calls, self.seen = recording.calls, recording.seen
        forward(recording, recorder, placed)
        #: The calls of the last run, by number.
        self.live: list[Call] = list(recorder.calls)
        self._pristine = [call.cache for call in self.live]
        came = (call for call in self.calls if call.operation and call.backward_time is not None)
        #: The calls of operations in the order of their backward.
        self.backward_order: list[Call] = sorted(came, key=lambda call: call.backward_time or (0, 0))

    @property
    def output(self) -> tuple[HostArray, ...]:
        """What the target returned."""
        return tuple(np.asarray(part) for part in as_tuple(self.seen[0].output))

    @property
    def upstream(self) -> tuple[HostArray, ...]:
        """The gradient of what the target returned."""
        return tuple(np.asarray(part) for part in as_tuple(self.seen[0].upstream))

    def call_seen(self, call: Call) -> Seen:
        """The arrays of a call, as they were in the recording."""
        return self.seen[call.number]

    def run(self, hooks: Hooks | None = None, upstream: tuple[HostArray, ...] | None = None) -> HostArrays:
        """Run the backward again; the gradients of parameters and inputs, by name. upstream None: from the loss."""
        copies: dict[int, Any] = {}
        for call, cache in zip(self.live, self._pristine, strict=True):
            call.cache, call.backward_time = copied(cache, copies), None
        return self._backward(hooks, upstream)

    def loss_at(self, replaced: HostArrays, hooks: Hooks | None = None) -> complex:
        """The loss with some parameters or inputs replaced, by real or complex numbers; or with what hooks change."""
        with self._apart(hooks):
            if replaced:
                return complex(self.recording.value(replaced))
            y = forward(self.recording, self._recorder, self._placed)
            return complex(loss_of(self.recording, self._recorder, y))

    def gradients_at(self, replaced: HostArrays, hooks: Hooks | None = None) -> tuple[HostArrays, list[Call]]:
        """The gradients with some parameters or inputs replaced, or with what hooks change; and the calls."""
        with self._apart(hooks):
            if replaced:
                how, upstream = self.recording.how, self.recording.upstream
                if how is not None:
                    _, cache = PLAIN.cross_entropy.forward(self.checked.outputs(replaced)[0], *how)
                    upstream = as_tuple(PLAIN.cross_entropy.backward(1.0, cache))
                return self.checked.gradients(upstream, replaced), []
            forward(self.recording, self._recorder, self._placed)
            return self._backward(hooks, None), list(self._recorder.calls)

    def _backward(self, hooks: Hooks | None, upstream: tuple[HostArray, ...] | None) -> HostArrays:
        for owner in self.checked.owners.values():
            owner.grad[...] = 0
        before, self._recorder.hooks = self._recorder.hooks, hooks or Hooks()
        try:
            return backward(self.recording, self._recorder, upstream)
        finally:
            self._recorder.hooks = before

    @contextmanager
    def _apart(self, hooks: Hooks | None) -> Iterator[None]:
        """Within this context, calls are kept apart from those of the session."""
        calls, watched = self._recorder.calls, self._recorder.hooks
        self._recorder.calls, self._recorder.hooks = [], hooks or Hooks()
        try:
            yield
        finally:
            self._recorder.calls, self._recorder.hooks = calls, watched


@contextmanager
def session(setting: Setting, lines: bool = False) -> Iterator[Session]:
    """Within this context a setting can be explained; its target is then as before. lines: record them, for a page."""
    recording = record(
        setting.target,
        *setting.inputs,
        targets=setting.targets,
        ignore_index=None if setting.targets is None else setting.pad_id,
        lines=lines,
        **setting.options,
    )
    with running(recording, Hooks(), recording.calls) as (recorder, placed):
        yield Session(setting, recording, recorder, placed)


def copied(cache: Any, copies: dict[int, Any]) -> Any:
    """A cache with copies of the containers that a backward empties; arrays and the caches of pairs stay the same."""
    if id(cache) not in copies:
        copies[id(cache)] = _copied(cache, copies)
    return copies[id(cache)]


def _copied(cache: Any, copies: dict[int, Any]) -> Any:
    if isinstance(cache, CacheStack):
        stack = CacheStack.__new__(type(cache))
        vars(stack).update(vars(cache) | {"_entries": [copied(entry, copies) for entry in cache]})
        return stack
    if isinstance(cache, tuple):
        parts = [copied(part, copies) for part in cache]
        if all(one is other for one, other in zip(parts, cache, strict=True)):
            return cache
        return type(cache)(*parts) if hasattr(cache, "_fields") else tuple(parts)
    if isinstance(cache, list):
        return [copied(part, copies) for part in cache]
    return {key: copied(part, copies) for key, part in cache.items()} if isinstance(cache, dict) else cache
