"""Finds parameters and gradients in users' classes, by common names.

A place is a path of keys: an attribute's name, a dict's key or a list's index. Backward may create a gradient later,
so its name counts as found if the class's own code mentions it.
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.checkable import is_inexact
from npformer.errors import ConfigError

Path = tuple[Any, ...]

GRADIENTS = ("d{}", "d_{}", "grad_{}", "{}_grad", "grad{}", "{}_gradient")  # of an attribute, by its name
BOXES = (("data", "grad"), ("value", "grad"), ("data", "gradient"), ("value", "gradient"))  # of an object of its own
TABLES = (("params", "grads"), ("parameters", "gradients"), ("parameters", "grads"), ("params", "gradients"))
_STORES, _LOADS = {"STORE_ATTR"}, {"LOAD_ATTR", "LOAD_METHOD"}


def find(target: Any, named: Mapping[Path, Path | None]) -> list[tuple[Path, Path]]:
    """(place of a parameter, place of its gradient) for everything in target, given ones first.

    Raises ConfigError for an array that is used as a parameter and has no place for its gradient.
    """
    places, arrays = [], set()
    for array, gradient in named.items():
        arrays.add(id(found_at(target, array)))
        if gradient is not None:
            places.append((array, gradient))
    for path, owner in owners_in(target):
        for array, gradient in _of_owner(owner):
            if (number := id(found_at(owner, array))) not in arrays:
                arrays.add(number)
                places.append((path + array, path + gradient))
    gradients = {id(found_at(target, gradient)) for _, gradient in places}
    for path, owner in owners_in(target):
        _expect_none_left(owner, path, arrays | gradients)
    return places


def owners_in(x: Any, path: Path = (), seen: set[int] | None = None) -> Iterator[tuple[Path, Any]]:
    """(place, object) of x and of all inside that have a backward, those inside lists and dicts too, inner ones first.

    Inner ones come first, so that a parameter that an outer list also holds gets the inner, more telling name.
    """
    seen = set() if seen is None else seen
    if id(x) in seen:
        return
    seen.add(id(x))
    if isinstance(x, Mapping | list | tuple):
        items = x.items() if isinstance(x, Mapping) else enumerate(x)
        for key, part in list(items):
            yield from owners_in(part, (*path, key), seen)
    elif hasattr(x, "backward") and hasattr(x, "__dict__"):
        for key, part in list(vars(x).items()):
            yield from owners_in(part, (*path, key), seen)
        yield path, x


def _of_owner(owner: Any) -> Iterator[tuple[Path, Path]]:
    """The parameters of one object, by each convention."""
    uses = _uses(type(owner))
    for name, x in vars(owner).items():
        if is_array(x):
            names = [grad for grad in _gradient_names(name) if hasattr(owner, grad) or grad in uses.mentioned]
            if names:
                yield (name,), (names[0],)
            continue
        for data, grad in BOXES:
            if hasattr(x, grad) and is_array(getattr(x, data, None)) and not hasattr(x, "backward"):
                yield (name, data), (name, grad)
                break
    for table, gradients in TABLES:
        kept = getattr(owner, table, None)
        if isinstance(kept, Mapping | list) and (hasattr(owner, gradients) or gradients in uses.mentioned):
            for key, x in list(kept.items() if isinstance(kept, Mapping) else enumerate(kept)):
                if is_array(x):
                    yield (table, key), (gradients, key)


def is_array(x: Any) -> bool:
    """Whether x is a NumPy array of floating-point numbers."""
    return isinstance(x, np.ndarray) and is_inexact(x)


def _gradient_names(name: str) -> list[str]:
    """Possible names of an attribute's gradient; for ``_W`` also ``_dW``."""
    bare = name.lstrip("_")
    margin = name[: len(name) - len(bare)]
    return list(dict.fromkeys(form.format(name) for form in GRADIENTS)) + [
        margin + form.format(bare) for form in GRADIENTS if margin
    ]


def others_read(target: Any, known: Collection[Path]) -> list[str]:
    """The places of float arrays that some forward reads, and that are not among the known ones."""
    arrays = {id(found_at(target, path)) for path in known}
    return [
        dotted((*path, name))
        for path, owner in owners_in(target)
        for name, x in vars(owner).items()
        if is_array(x) and id(x) not in arrays and name in _uses(type(owner)).read
    ]


def _expect_none_left(owner: Any, path: Path, known: set[int]) -> None:
    """Raise ConfigError for an unknown array that forward reads and that only __init__ writes."""
    uses = _uses(type(owner))
    for name, x in vars(owner).items():
        if is_array(x) and x.ndim > 0 and id(x) not in known and name in uses.read and name not in uses.state:
            place = dotted((*path, name))
            names = ", ".join(form.format(name) for form in GRADIENTS)
            raise ConfigError(
                f"{place}: expected a place of its gradient, one of {names}, found none; "
                f'from_object(…, parameters={{"{place}": "PLACE"}}) names it, {{"{place}": None}} says that {name} is '
                "a constant, no parameter"
            )


class _Uses(NamedTuple):
    """The names of attributes that a class's code uses."""

    mentioned: set[str]  # anywhere
    read: set[str]  # by forward, or by __call__
    state: set[str]  # written outside of __init__


def _uses(kind: type) -> _Uses:
    uses = _Uses(set(), set(), set())
    methods = [(n, f) for base in kind.__mro__ for n, f in vars(base).items() if hasattr(f, "__code__")]
    for method, function in methods:
        for name, operation in _attributes(function.__code__):
            uses.mentioned.add(name)
            if operation in _STORES and method != "__init__":
                uses.state.add(name)
            if operation in _LOADS and method in ("forward", "__call__"):
                uses.read.add(name)
    return uses


def _attributes(code: CodeType) -> Iterator[tuple[str, str]]:
    """(name, operation) of each use of an attribute in a function and in the functions inside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _STORES | _LOADS:
            yield str(instruction.argval), instruction.opname
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _attributes(constant)


def found_at(x: Any, path: Path) -> Any:
    """The value at a place, or None."""
    for key in path:
        if isinstance(x, Mapping):
            x = x.get(key)
        elif isinstance(x, Sequence) and isinstance(key, int):
            x = x[key] if key < len(x) else None
        else:
            x = getattr(x, str(key), None)
    return x


def path_of(target: Any, name: str) -> Path:
    """The path of a dotted name such as ``layers.0.W``; each word is an attribute, key or index."""
    path: Path = ()
    for word in name.split("."):
        here = found_at(target, path)
        path += (int(word) if isinstance(here, list | tuple) and word.isdecimal() else word,)
    return path


def dotted(path: Path) -> str:
    """A path as a name: ``layers.0.W``."""
    return ".".join(map(str, path))
