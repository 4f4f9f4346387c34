"""An invariant: a name, its claim in one line, and a function that looks for a violation; and the probe that it asks.

Every change that a check makes to its target is undone: of attributes, arrays, lists and random generators. A copy of
the target is not enough, since a forward may close over the object itself.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from npformer.backend import Device
from npformer.check.checkable import unpacked
from npformer.check.inputs import host_copies, is_float
from npformer.check.properties import Asked, DoesNotApply, Equation, Equations, Property, Violation
from npformer.check.report import FAILS, HOLDS, NOT_APPLICABLE, Claim
from npformer.check.subject import BackwardFailed, Subject
from npformer.functional import AttentionMask, Draw
from npformer.functional.arrays import namespace
from npformer.layers import Context, RandomKey
from npformer.typing import HostArray, HostArrays, Named, Tensors, Values

POISON = 1e3  # finite, since 0·∞ and 0·NaN are NaN in every product, whatever the mask
NOTHING: Named = {}


class ProbeRun(NamedTuple):
    """One forward and one backward. Everything is a copy on the host."""

    outputs: HostArrays  # "output", or "output 0", "output 1", …
    upstream: HostArrays  # the gradient of each output
    gradients: HostArrays  # of the float inputs, in order, then of the parameters


class Probe(Subject):
    """A target whose runs differ by name: in inputs, of other shapes too, in options and in parameters."""

    seed = 0

    @cached_property
    def values(self) -> Values:
        """Inputs and options by name: floats in float64, token ids and masks on the host, where checks change them."""
        every = self.inputs.values | unpacked(self.options)
        return {name: self._fetched(value) for name, value in every.items()}

    def _fetched(self, value: Any) -> Any:
        if isinstance(value, AttentionMask):
            return replace(value, key_visible=self._fetched(value.key_visible))
        return np.array(self.device.host(value)) if self.device.owns(value) else value

    @property
    def float_inputs(self) -> list[str]:
        """The names of the inputs that have gradients."""
        return list(self.inputs.tensors)

    def placed(self, replaced: Named) -> tuple[list[Any], Values]:
        """The inputs in new memory, and the options, some replaced."""
        return super().placed({**self.values, **replaced})

    def rng(self, use: int) -> np.random.Generator:
        """Random numbers for one use, equal in every run."""
        return np.random.default_rng([self.seed, use])

    def named_outputs(self, y: Any) -> HostArrays:
        """Copies of the outputs, by name."""
        copies = host_copies(y, self.device)
        return {"output": copies[0]} if len(copies) == 1 else {f"output {i}": part for i, part in enumerate(copies)}

    def outputs_at(self, changed: Named = NOTHING) -> HostArrays:
        """A forward alone."""
        with self.at(changed):
            return self.named_outputs(self.forward(changed).y)

    def random_upstream(self, outputs: Tensors, use: int = 1) -> HostArrays:
        """A random gradient for each output, equal in every run of one use."""
        rng = self.rng(use)
        return {name: np.asarray(rng.normal(size=y.shape)) for name, y in outputs.items() if is_float(y)}

    def run(self, changed: Named = NOTHING, upstream: Tensors | None = None) -> ProbeRun:
        """A forward and a backward. changed replaces inputs, options and parameters; upstream is random by default."""
        with self.at(changed):
            call = self.forward(changed)
            outputs = self.named_outputs(call.y)
            dy = self.random_upstream(outputs) if upstream is None else dict(upstream)
            gradients = self.pulled(call, tuple(dy.values()))
        return ProbeRun(outputs, dy, gradients)

    @cached_property
    def asked(self) -> Asked:
        """What properties are asked at: two upstream gradients, the gradients of the first, and other inputs."""
        run = self.run()
        second = self.random_upstream(run.outputs, 5)
        upstreams = [tuple(each.values()) for each in (run.upstream, second)]
        return Asked(self, upstreams, run.gradients, strict=True, other=self._others())

    def _others(self) -> Values:
        """Inputs of the same shapes, with moved floats and exchanged tokens, if anything can change."""
        rng = self.rng(7)
        changed: Values = {n: x + 0.5 * rng.normal(size=x.shape) for n, x in self.inputs.tensors.items()}
        for name in self.input_names:
            x = self.values.get(name)
            if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and len(np.unique(x)) > 1:
                changed[name] = other_tokens(x)
        return changed

    def without_dropout(self) -> Values:
        """What to change for a run without dropout. Raises DoesNotApply if a key cannot be left out."""
        needed = inspect.signature(self.target.forward).parameters
        keys = [name for name, value in self.values.items() if isinstance(value, Draw | RandomKey)]
        for name in keys:
            if name in self.options and name in needed and needed[name].default is inspect.Parameter.empty:
                raise DoesNotApply(f"forward cannot be run without {name}, so dropout cannot be switched off")
        return dict.fromkeys(keys)


def taken(value: Any, rows: Any) -> Any:
    """Some rows of a batch: of an array, or of a mask's key_visible."""
    if isinstance(value, AttentionMask):
        return value if value.key_visible is None else replace(value, key_visible=value.key_visible[rows])
    return value[rows]


class Governed(NamedTuple):
    """A mask, the inputs (..., S, C) whose steps are its keys, and whether the queries are those same steps."""

    mask: AttentionMask
    inputs: tuple[str, ...]
    is_self: bool


def governed(probe: Probe) -> list[Governed]:
    """Every mask of the probe's target, with the inputs to which it applies."""
    masks = [_inputs_of(name, mask, probe) for name, mask in probe.values.items() if isinstance(mask, AttentionMask)]
    if not masks and getattr(probe.target, "causal", False) is True and probe.float_inputs:
        return [Governed(AttentionMask(causal=True), (probe.float_inputs[0],), True)]
    return [one for one in masks if one.inputs]


def _inputs_of(name: str, mask: AttentionMask, probe: Probe) -> Governed:
    """Keys and values; the memory; or the layer's own input, which then holds the queries as well."""
    if {"k", "v"} <= set(probe.float_inputs):
        return Governed(mask, ("k", "v"), False)
    has_memory = "memory" in probe.float_inputs
    if name == "memory_mask" or (has_memory and not _tells_masks_apart(probe)):
        return Governed(mask, ("memory",) if has_memory else (), False)
    return Governed(mask, tuple(probe.float_inputs[:1]), True)


def _tells_masks_apart(probe: Probe) -> bool:
    """Whether forward has a memory_mask of its own; if not, the one mask of a cross-attention is the memory's."""
    if isinstance(probe.options.get("context"), Context):
        return True
    parameters = inspect.signature(probe.target.forward).parameters
    return "memory_mask" in parameters or any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def with_steps(x: HostArray, hidden: HostArray, others: Any = 0.0) -> HostArray:
    """x (B, ..., T, C) with other numbers, or zeros, wherever hidden (B, T)."""
    return np.where(hidden.reshape((x.shape[0], *(1,) * (x.ndim - 3), x.shape[-2], 1)), others, x)


def token_inputs(probe: Probe) -> tuple[str, str] | None:
    """The names of (src, tgt_in) if the target is a model of batches of token ids, else None.

    If a model takes a single batch, src and tgt_in are the same.
    """
    names = [name for name in probe.input_names if _is_tokens(probe.values.get(name))]
    if probe.is_pair or probe.float_inputs or len(names) not in (1, 2) or pad_id_of(probe.target) is None:
        return None
    return names[0], names[-1]


def _is_tokens(x: Any) -> bool:
    return hasattr(x, "dtype") and getattr(x, "ndim", 0) == 2 and str(x.dtype).startswith(("int", "uint"))


def other_tokens(tokens: HostArray) -> HostArray:
    """Each token replaced by another one that occurs, so that it is in the vocabulary."""
    known = np.unique(tokens)
    return np.asarray(known[(np.searchsorted(known, tokens) + 1) % len(known)])


def pad_id_of(target: Any) -> int | None:
    """config.pad_id or pad_id of a model, if it has one."""
    pad_id = getattr(getattr(target, "config", target), "pad_id", None)
    return None if pad_id is None or pad_id < 0 else int(pad_id)


Judge = Callable[[Probe], Equations]


@dataclass(frozen=True)
class Invariant:
    """One invariant's check. Call it like ``gradcheck``; ``judged`` runs it on a Probe."""

    name: str
    meaning: str
    judge: Judge

    def __call__(self, target: Any, *inputs: Any, device: Device | None = None, seed: int = 0, **options: Any) -> Claim:
        """The check on a target at these inputs. An error of forward on them is raised."""
        with opened(target, inputs, options, device, seed) as probe:
            return self.judged(probe)

    def judged(self, probe: Probe) -> Claim:
        """The result on a probe; if the target raises an error, the claim does not hold."""
        try:
            each = (one if isinstance(one, Violation) else one.violation for one in self.judge(probe))
            violation = next(filter(None, each), None)
        except DoesNotApply as reason:
            return Claim(self.name, self.meaning, NOT_APPLICABLE, str(reason))
        except Exception as failed:
            error = failed.error if isinstance(failed, BackwardFailed) else failed
            return Claim(self.name, self.meaning, FAILS, f"raised {type(error).__name__}: {error}")
        return Claim(self.name, self.meaning, FAILS if violation else HOLDS, str(violation or ""))


def invariant(name: str, meaning: str) -> Callable[[Judge], Invariant]:
    """Make an Invariant from a judge: a function of a Probe that yields equations, or raises DoesNotApply."""
    return lambda judge: Invariant(name, meaning, judge)


def claimed(one: Property) -> Invariant:
    """The claim that a property holds, strictly."""

    def judge(probe: Probe) -> Equations:
        for each in one.asked(probe.asked):
            yield each._replace(upstream=probe.asked.dy) if isinstance(each, Equation) else each

    return Invariant(one.name, one.meaning, judge)


@contextmanager
def opened(target: Any, inputs: tuple[Any, ...], options: Values, device: Device | None, seed: int) -> Iterator[Probe]:
    """A Probe whose forward has run once: unfit inputs are the caller's error, not a finding. Then all is restored."""
    parameters = [parameter for _, parameter in getattr(target, "named_parameters", list)()]  # none of a pair
    with restored(target, *parameters):
        probe = Probe(target, inputs, options, device, moved=False)
        probe.seed = seed
        probe.outputs_at()
        yield probe


#: What restores everything, step by step.
Undo = list[Callable[[], None]]
PLAIN_VALUES = (str, bytes, int, float, complex, bool, type(None), np.generic, type, ModuleType)


@contextmanager
def restored(*roots: Any) -> Iterator[None]:
    """On exit, restore everything reachable from roots through attributes and containers."""
    undo: Undo = []
    _walk(list(roots), undo)
    try:
        yield
    finally:
        for step in undo:
            step()


def _walk(waiting: list[Any], undo: Undo) -> None:
    """Visit every object once and record how to restore it."""
    seen: dict[int, Any] = {}  # keeps the objects alive, so that no id is reused
    while waiting:
        value = waiting.pop()
        if isinstance(value, PLAIN_VALUES) or id(value) in seen:
            continue
        seen[id(value)] = value
        if is_array_api_obj(value):
            _note_array(value, undo)
        elif isinstance(value, (tuple, frozenset, set)):
            waiting.extend(value)
        else:
            waiting.extend(_note_object(value, undo))


def _note_array(x: Any, undo: Undo) -> None:
    if isinstance(x, np.ndarray) and not x.flags.writeable:
        return
    before = namespace(x).asarray(x, copy=True)
    undo.append(lambda: x.__setitem__(..., before))


def _note_object(value: Any, undo: Undo) -> list[Any]:
    """Record how to restore one object; returns the objects that it refers to."""
    if isinstance(value, list):
        items = list(value)
        undo.append(lambda: value.__setitem__(slice(None), items))
        return items
    if isinstance(value, dict):
        return _note_mapping(value, undo)
    if isinstance(value, np.random.Generator):
        state = value.bit_generator.state
        undo.append(lambda: setattr(value.bit_generator, "state", state))
    elif isinstance(value, random.Random):
        past = value.getstate()
        undo.append(lambda: value.setstate(past))
    owners = [value.__self__] if hasattr(value, "__self__") else []
    return [*owners, *_note_slots(value, undo), *_note_mapping(getattr(value, "__dict__", None), undo)]


def _note_mapping(mapping: Any, undo: Undo) -> list[Any]:
    if not isinstance(mapping, dict):  # an object without attributes, or a class's read-only view
        return []
    before = dict(mapping)

    def put_back() -> None:
        if mapping.keys() != before.keys() or any(mapping[name] is not before[name] for name in before):
            mapping.clear()
            mapping.update(before)

    undo.append(put_back)
    return list(before.values())


def _note_slots(value: Any, undo: Undo) -> list[Any]:
    slots = [slot for kind in type(value).__mro__ for slot in _names(getattr(kind, "__slots__", ()))]
    before = {slot: getattr(value, slot) for slot in slots if not slot.startswith("__") and hasattr(value, slot)}
    if before:

        def put_back() -> None:
            for slot, old in before.items():
                if getattr(value, slot) is not old:
                    object.__setattr__(value, slot, old)  # a frozen object's, too

        undo.append(put_back)
    return list(before.values())


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
