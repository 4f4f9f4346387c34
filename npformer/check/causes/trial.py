"""Runs of a check for functions of the user's that may be at fault: a pair's backward, or methods named so."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from npformer.backend import Pair
from npformer.check.adapters.stateful import owners_in
from npformer.check.causes.source import is_installed
from npformer.check.checkable import Checkable, unwrapped
from npformer.check.in_float64 import attributes
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArrays


class Trial(NamedTuple):
    """A function of the user's, its forward, and the check's gradients by the number of the upstream gradient."""

    function: Callable[..., Any]
    forward: Callable[..., Any]
    run: Callable[[int], HostArrays]
    library: str = "numpy"  # what the function computes with: "torch" or "jax", whose runs are slow


def plain(checked: Subject) -> Subject:
    """The subject with the Python function of a compiled backward, which would not see a change."""
    target: Any = checked.target
    if not checked.is_pair or isinstance(target.backward, FunctionType | MethodType | partial):
        return checked
    python = copy.copy(checked)
    python.target = Pair(target.forward, unwrapped(target.backward))
    return python


def trials_of(checked: Subject, upstreams: Sequence[Upstream]) -> list[Trial]:
    """The functions that may be at fault: of a pair the backward, of an object the methods named …backward.

    Empty if the check cannot be repeated.
    """
    if checked.is_pair:
        return _of_pair(checked, upstreams)
    return list(_of_methods(checked, upstreams))


def _of_pair(checked: Subject, upstreams: Sequence[Upstream]) -> list[Trial]:
    forward, backward = checked.target
    try:
        calls = [checked.call(upstream) for upstream in upstreams]
        copy.deepcopy(calls[0])
    except Exception:
        return []  # a cache that cannot be copied allows no repeated runs
    return [Trial(backward, forward, lambda number: checked.inputs.named(backward(*copy.deepcopy(calls[number]))))]


def _of_methods(checked: Subject, upstreams: Sequence[Upstream]) -> Iterator[Trial]:
    owner = checked.target.owner if isinstance(checked.target, Checkable) else checked.target
    library = getattr(owner, "library", "numpy")
    run = _from_one_forward(checked, owner, upstreams) if library != "numpy" else None
    outermost_first = sorted(owners_in(owner), key=lambda place_and_owner: len(place_and_owner[0]))
    for kind in dict.fromkeys(base for _, one in outermost_first for base in type(one).__mro__):
        for name, method in list(vars(kind).items()):
            if name.endswith("backward") and isinstance(method, FunctionType) and not is_installed(method, kind):
                forward = getattr(kind, "forward", method)
                yield Trial(method, forward, run or (lambda number: checked.gradients(upstreams[number])), library)


def _from_one_forward(checked: Subject, owner: Any, upstreams: Sequence[Upstream]) -> Callable[[int], HostArrays]:
    """Runs of the backward from one forward for each upstream gradient: its rule gets copies of what was saved."""
    calls: dict[int, tuple[Any, Any]] = {}

    def run(number: int) -> HostArrays:
        calls[number] = calls.get(number) or checked.call(upstreams[number])
        dy, cache = calls[number]
        with attributes(owner, copies=True):
            return checked.again(copy.deepcopy(dy), cache)

    return run
