"""An invariant: a name, its claim in one line, and a function that looks for a violation.

Every change that a check makes to its target is undone: of attributes, arrays, lists and random generators. A copy of
the target is not enough, since a forward may close over the object itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from npformer.backend import Device
from npformer.check.invariants.probe import Probe
from npformer.check.properties import DoesNotApply, Equation, Equations, Property, Violation
from npformer.check.report import FAILS, HOLDS, NOT_APPLICABLE, Claim
from npformer.check.subject import BackwardFailed
from npformer.functional.arrays import namespace

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
def opened(
    target: Any, inputs: tuple[Any, ...], options: dict[str, Any], device: Device | None, seed: int
) -> Iterator[Probe]:
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
