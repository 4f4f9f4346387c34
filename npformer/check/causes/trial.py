"""Runs of a check for functions of the user's that may be at fault: what runs in a backward."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Pair
from npformer.check.adapters.jax_pair import in_numpy
from npformer.check.adapters.stateful import owners_in
from npformer.check.behaviour import NOT_THEIRS
from npformer.check.causes.edits import CUTS, Edits, bound
from npformer.check.causes.source import Source, is_installed, source_of
from npformer.check.checkable import unwrapped
from npformer.check.in_float64 import attributes
from npformer.check.subject import Subject, Upstream
from npformer.typing import Function, HostArrays, Values

#: The check's gradients by the number of the upstream gradient.
Run = Callable[[int], HostArrays]


class Trial(NamedTuple):
    """A function of the user's, its forward, and the check's gradients by the number of the upstream gradient."""

    function: Function
    forward: Function
    run: Run
    library: str = "numpy"  # what the function computes with: "torch" or "jax", whose runs are slow
    code: CodeType | None = None  # of the definition inside the function that is changed, if not the function itself
    scope: Values | None = None  # the names that it sees in these runs, if others than its own
    edits: Edits | None = None  # what alone is tried, of code that a library differentiates or that makes closures

    @property
    def source(self) -> Source | None:
        """What is changed; None if it has no source."""
        return source_of(self.function, self.code)


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

    Then what else of the user's runs in it: other methods, and what a forward or a tape keeps.
    """
    target: Any = checked.target
    library, owner = getattr(target, "library", "numpy"), getattr(target, "owner", target)
    in_numpy_only = in_numpy(checked, type(owner), upstreams) if library == "jax" and owner is not None else None
    again = _of_one_forward(checked, upstreams) if library == "numpy" else _from_one_forward(checked, owner, upstreams)
    whole: Run = lambda number: checked.gradients(upstreams[number])  # noqa: E731
    run, scope = in_numpy_only or (again or whole, None)
    rules = [(target.backward, target.forward)] if checked.is_pair else _rules_of(owner)
    trials = [Trial(rule, forward, run, library, scope=scope) for rule, forward in rules]
    try:
        before = codes_run(lambda: checked.call(upstreams[0]))
        dy, cache = checked.call(upstreams[0])
        after = codes_run(lambda: checked.again(dy, cache))
    except Exception:
        return trials
    known = {getattr(unwrapped(trial.function), "__code__", None) for trial in trials}
    others = {code: names for code, names in after.items() if code not in known}
    makers = set[FunctionType]()
    for function, code in homes_of(target, others, before | after):
        cut = CUTS if library != "numpy" and (code or function.__code__) in before else None
        trials.append(Trial(function, target.forward, whole, library, code, edits=cut))
        if code is not None and function not in makers:
            makers.add(function)
            trials.append(Trial(function, target.forward, whole, library, edits=bound))
    # The rules of a tape come before what walks over it.
    return sorted(trials, key=lambda trial: trial.code is None)


def codes_run(call: Callable[[], Any]) -> dict[CodeType, Values]:
    """The codes of the user's functions that a call runs, in their order, with the names of their modules."""
    found = dict[CodeType, Values]()

    def of_call(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith((*NOT_THEIRS, "<string>")):
            found.setdefault(frame.f_code, frame.f_globals)

    before = sys.getprofile()
    sys.setprofile(of_call)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def homes_of(
    target: Any, codes: Iterable[CodeType], ran: Mapping[CodeType, Values]
) -> Iterator[tuple[FunctionType, CodeType | None]]:
    """The function of each code, and None; or else the function around it, if that ran, too, and the code."""
    owner = getattr(target, "owner", None)
    parts = vars(owner).values() if hasattr(owner, "__dict__") else ()
    roots = [target.forward, target.backward, *map(type, (target, owner, *parts))]  # they may be of no module
    modules = {id(names): names for names in ran.values()}
    functions = [f for f in _functions([roots, *modules.values()]) if f.__code__ in ran]
    homes = {f.__code__: f for f in functions[::-1]}
    homes |= {inner: f for f in functions for inner in f.__code__.co_consts if isinstance(inner, CodeType)}
    for code in codes:
        if code in homes:
            yield homes[code], None if homes[code].__code__ is code else code


def _functions(places: Sequence[Any]) -> Iterator[FunctionType]:
    """The functions of modules, of their classes, and those that these hold."""
    seen, waiting = set[int](), list(places)
    while waiting:
        value = waiting.pop(0)
        value = unwrapped(getattr(value, "__func__", getattr(value, "fget", value)))
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            waiting += [each for each in value.values() if isinstance(each, _HOLDERS)]
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, type) and not value.__module__.startswith(("builtins", "numpy", "torch", "jax")):
            waiting.append(vars(value))
        elif isinstance(value, FunctionType):
            yield value
            waiting += [cell.cell_contents for cell in value.__closure__ or () if _holds(cell)]


_HOLDERS = (FunctionType, MethodType, type, staticmethod, classmethod, property, partial)


def _holds(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, _HOLDERS)
    except ValueError:  # it is empty
        return False


def sources_run(checked: Subject) -> list[Source]:
    """The sources of the user's functions that a forward runs."""
    ran = codes_run(lambda: checked.outputs({}))
    return [source for home in homes_of(checked.target, ran, ran) if (source := source_of(*home))]


def _rules_of(owner: Any) -> Iterator[tuple[Any, Any]]:
    """(backward, forward) of the classes of an object and of its parts, the outermost first."""
    owners = sorted(owners_in(owner), key=lambda place_and_owner: len(place_and_owner[0]))
    for kind in dict.fromkeys(base for _, one in owners for base in type(one).__mro__):
        for name, method in list(vars(kind).items()):
            if name.endswith("backward") and isinstance(method, FunctionType) and not is_installed(method, kind):
                yield method, getattr(kind, "forward", method)


def _of_one_forward(checked: Subject, upstreams: Sequence[Upstream]) -> Run | None:
    """Runs of the backward from copies of what one forward left; None if they give something else."""
    try:
        calls = [checked.call(upstream) for upstream in upstreams]
        copied: Run = lambda number: checked.again(*copy.deepcopy(calls[number]))  # noqa: E731
        first, again = checked.gradients(upstreams[0]), copied(0)
    except Exception:
        return None
    return copied if all(np.array_equal(first[name], g, equal_nan=True) for name, g in again.items()) else None


def _from_one_forward(checked: Subject, owner: Any, upstreams: Sequence[Upstream]) -> Callable[[int], HostArrays]:
    """Runs of the backward from one forward for each upstream gradient: its rule gets copies of what was saved."""
    calls: dict[int, tuple[Any, Any]] = {}

    def run(number: int) -> HostArrays:
        calls[number] = calls.get(number) or checked.call(upstreams[number])
        dy, cache = calls[number]
        with attributes(owner, copies=True):
            return checked.again(copy.deepcopy(dy), cache)

    return run
