"""Recognises a backward of another form by trying: other arguments, or gradients in another order or container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

from npformer.backend import Pair
from npformer.check.causes.paths import ALIKE, Slopes
from npformer.check.checkable import parameters_of
from npformer.check.inputs import as_tuple
from npformer.check.look import expect_fitting
from npformer.check.measures import max_abs
from npformer.check.subject import Subject, Upstream

#: Of more gradients, not every order is tried.
MOST_GRADIENTS = 4
Backward = Callable[[Any, Any], Any]


def other_form(checked: Subject, upstream: Upstream, is_failing: bool) -> str:
    """What a pair's backward expects or returns instead, if it is right so; "" if nothing was found.

    is_failing: it raised an exception, or its gradients do not fit; else only other arguments are tried, for another
    order of gradients is a line of its source.
    """
    if not checked.is_pair:
        return ""
    truth = None
    forward, backward = checked.target
    names = [name for name in checked.input_names if name in checked.tensors]
    slopes = Slopes(checked, upstream)
    results = list(_results(names)) if is_failing else [("", lambda found: found)]
    with np.errstate(all="ignore"):
        for (taken, call), (returned, ordered) in product(_arguments(backward), results):
            if not taken and not returned:
                continue
            subject = checked.of(Pair(forward, lambda dy, cache, c=call, o=ordered: o(c(dy, cache))))
            try:
                claims = subject.gradients(upstream)
                expect_fitting(subject, claims)
                truth = slopes.measured() if truth is None else truth
                claimed = slopes.along(claims)
            except Exception:
                continue
            if truth is not None and max_abs(claimed - truth) < ALIKE * max_abs(truth):  # zeros are of every form
                said = " and ".join(filter(None, (taken, returned)))
                return f"every gradient is right, but {said}; npformer calls backward(dy, cache) and expects " + (
                    f"the gradients of {', '.join(names)}, in this order"
                )
    return ""


def _arguments(backward: Any) -> Iterator[tuple[str, Backward]]:
    """(what a backward takes, the call)."""
    yield "", backward
    yield "backward takes (cache, dy): exchange its arguments", lambda dy, cache: backward(cache, dy)
    yield "backward takes dy alone: give it a second argument, cache", lambda dy, cache: backward(dy)
    yield "backward takes the parts of the cache one by one after dy", lambda dy, cache: backward(dy, *cache)
    yield "backward takes the parts of the cache one by one before dy", lambda dy, cache: backward(*cache, dy)
    needed = [name for name, p in (parameters_of(backward) or {}).items() if p.default is p.empty]
    if len(needed) > 2:
        more = ", ".join(needed[2:])
        one = dict.fromkeys(needed[2:], 1.0)
        yield f"backward also needs {more}: give it a default", partial(backward, **one)


def _results(names: list[str]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """(what a backward returns, its gradients as they are expected)."""
    yield "", lambda found: found
    yield "backward returns a dict: return a tuple", lambda found: tuple(_named(found, name) for name in names)
    yield "backward returns tuples in tuples: return one tuple", lambda found: tuple(_flat(found))
    for order in permutations(range(len(names))) if 1 < len(names) <= MOST_GRADIENTS else ():
        if list(order) != sorted(order):
            of = ", ".join(names[order.index(i)] for i in range(len(names)))
            yield f"backward returns those of {of}", partial(_ordered, order)


def _ordered(order: Sequence[int], found: Any) -> tuple[Any, ...]:
    return tuple(as_tuple(found)[i] for i in order)


def _named(found: Any, name: str) -> Any:
    if not isinstance(found, Mapping):
        raise TypeError("no dict")
    return next(found[key] for key in (name, f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad") if key in found)


def _flat(found: Any) -> list[Any]:
    return [part for each in found for part in _flat(each)] if isinstance(found, tuple | list) else [found]
