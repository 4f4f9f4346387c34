"""Runs of a check with another function in the place of one of the user's: a pair's backward, or a method named so."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from npformer.proof.checkable import Checkable
from npformer.proof.repairs.source import is_installed
from npformer.proof.subject import LayerSubject, PairSubject, Subject, Upstream
from npformer.typing import HostArrays

#: Objects inside the checked one are looked at up to this depth, and up to this many.
DEPTH, MOST_OBJECTS = 4, 200
#: The most changes of one function. An object's forward runs with each of them, a pair's does not.
MOST_OF_PAIR, MOST_OF_METHOD = 8_000, 1_500


class Trial(NamedTuple):
    """A function of the user's, and what the check's gradients are with another one in its place."""

    function: Callable[..., Any]
    forward: Callable[..., Any]
    exchanged: Callable[[Any], AbstractContextManager[None]]  # a context in which the other one is in its place
    run: Callable[[Any, int], HostArrays]  # (the other one, number of the upstream gradient) -> gradients
    most: int  # the most changes to try


def trials_of(checked: Subject, upstreams: Sequence[Upstream]) -> list[Trial]:
    """The functions that may be at fault: of a pair the backward, of an object the methods named …backward.

    None if the check cannot be repeated.
    """
    if isinstance(checked, PairSubject):
        return _of_pair(checked, upstreams)
    return list(_of_methods(checked, upstreams)) if isinstance(checked, LayerSubject) else []


def _of_pair(checked: PairSubject, upstreams: Sequence[Upstream]) -> list[Trial]:
    try:
        given = [checked.call(upstream) for upstream in upstreams]
        copy.deepcopy(given[0])
    except Exception:
        return []  # a cache that cannot be copied allows no repeated runs

    def run(function: Any, number: int) -> HostArrays:
        return checked.inputs.named(function(*copy.deepcopy(given[number])))

    forward, backward = checked.target
    return [Trial(backward, forward, lambda function: nullcontext(), run, MOST_OF_PAIR)]


def _of_methods(checked: LayerSubject, upstreams: Sequence[Upstream]) -> Iterator[Trial]:
    owner = checked.target.owner if isinstance(checked.target, Checkable) else checked.target
    for kind in dict.fromkeys(base for each in _within(owner) for base in type(each).__mro__):
        for name, method in list(vars(kind).items()):
            if name.endswith("backward") and isinstance(method, FunctionType) and not is_installed(method):
                yield _of_method(checked, upstreams, kind, name, method)


def _of_method(
    checked: LayerSubject, upstreams: Sequence[Upstream], kind: type, name: str, method: FunctionType
) -> Trial:
    exchanged = partial(_exchanged, kind, name)

    def run(function: Any, number: int) -> HostArrays:
        with exchanged(function):
            return checked.gradients(upstreams[number])

    return Trial(method, getattr(kind, "forward", method), exchanged, run, MOST_OF_METHOD)


@contextmanager
def _exchanged(kind: type, name: str, function: Any) -> Iterator[None]:
    """Within this context the class has this method."""
    before = vars(kind)[name]
    setattr(kind, name, function)
    try:
        yield
    finally:
        setattr(kind, name, before)


def _within(owner: Any) -> list[Any]:
    """An object and those that it holds, in lists and dicts too, that have a backward; the outermost first."""
    found: list[Any] = []
    seen: set[int] = set()
    level = [owner]
    for _ in range(DEPTH):
        inner: list[Any] = []
        for each in level:
            if id(each) in seen or len(seen) > MOST_OBJECTS:
                continue
            seen.add(id(each))
            if hasattr(type(each), "backward"):
                found.append(each)
            held = each.values() if isinstance(each, dict) else each if isinstance(each, tuple | list) else ()
            inner += [*held, *vars(each).values()] if hasattr(each, "__dict__") else held
        level = [each for each in inner if hasattr(each, "__dict__") or isinstance(each, dict | tuple | list)]
    return found
