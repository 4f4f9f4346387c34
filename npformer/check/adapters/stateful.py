"""Adapts classes that store their cache on themselves for gradient checks.

    class Dense:
        def forward(self, x):  self.x = x; return x @ self.W + self.b
        def backward(self, dy):  self.dW = self.x.T @ dy; self.db = dy.sum(0); return dy @ self.W.T

    npf.gradcheck(npf.from_object(Dense(3, 4)), x)

Every evaluation runs on a new copy of the original object, so state that a forward leaves in it (a cache, a
running mean, a generator's state) does not reach the next one. The check's numbers replace a
parameter's array wherever the copy holds it, for example in both ``self.W`` and ``self.params[0]``. A second backward
starts from what the first one left, but for parameters, which may be updated, and gradients, which may be added to.

Parameters and gradients are found by common names. A place is a path of keys: an attribute's name, a dict's key or a
list's index. Backward may create a gradient later, so its name counts as found if the class's own code mentions it.
"""

from __future__ import annotations

import copy
import dis
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.checkable import Checkable, Value, described, is_inexact, parameters_of
from npformer.errors import ConfigError
from npformer.typing import HostArray

Path = tuple[Any, ...]

GRADIENTS = ("d{}", "d_{}", "grad_{}", "{}_grad", "grad{}", "{}_gradient")  # of an attribute, by its name
BOXES = (("data", "grad"), ("value", "grad"), ("data", "gradient"), ("value", "gradient"))  # of an object of its own
TABLES = (("params", "grads"), ("parameters", "gradients"), ("parameters", "grads"), ("params", "gradients"))
_STORES, _LOADS = {"STORE_ATTR"}, {"LOAD_ATTR", "LOAD_METHOD"}


def from_object(target: Any, *, parameters: Mapping[str, str | None] | None = None) -> Checkable:
    """Wrap an object with ``y = forward(x)`` and ``dx = backward(dy)`` for ``npf.gradcheck``; it is not changed.

    Parameters are found by the names of their gradients: W with dW, d_W, grad_W, W_grad, gradW or W_gradient; W with
    arrays W.data (or value) and W.grad; dicts or lists params with grads. So are those of objects inside that
    have forward and backward, also in lists and dicts, under names such as ``layers.0.W``.
    parameters: place of a parameter -> place of its gradient, before what is found: ``{"W": "gradient_of_W"}``,
    ``{"layers.0.W": "layers.0.update"}``; None instead of a gradient's place: this array is no parameter.
    backward returns the gradients of the float inputs, one or a tuple, or None if there are no float inputs. If
    it takes no dy, as for a loss, its gradients are multiplied by dy.

    Notes say what was taken for what. Raises ConfigError for a class in place of an object, for methods of another
    form, and for a parameter without a place for its gradient; an array that forward reads and only __init__ writes
    counts as a parameter.
    """
    forward = getattr(target, "forward", target.__call__ if callable(target) else None)
    if isinstance(target, type) or not callable(forward) or not callable(getattr(target, "backward", None)):
        wanted = "expected an object with the methods forward and backward"
        raise ConfigError(f"from_object: {wanted}, got {described(target)}")
    run = _Run(copy.deepcopy(target), parameters or {})
    values = {place.name: place.value for place in run.places}
    return Checkable(type(target).__name__, run.forward, run.backward, values, forward, 0, target, run.notes)


class _Place(NamedTuple):
    """A parameter: the places of its array and of its gradient in the object."""

    name: str
    array: Path
    gradient: Path
    value: Value


class _Run:
    """The object as a forward and a backward without state."""

    def __init__(self, pristine: Any, parameters: Mapping[str, str | None]) -> None:
        self._pristine, self._takes_dy = pristine, _takes_dy(pristine.backward)
        places = {
            path_of(pristine, name): None if place is None else path_of(pristine, place)
            for name, place in parameters.items()
        }
        self.places: list[_Place] = []
        for array, gradient in find(pristine, places):
            numbers = found_at(pristine, array)
            if not is_array(numbers):
                raise ConfigError(f"{dotted(array)}: expected a float array of NumPy's, got {type(numbers).__name__}")
            self.places.append(_Place(dotted(array), array, gradient, Value(numbers)))
        taken = [f"{place.name} with its gradient {dotted(place.gradient)}" for place in self.places]
        others = others_read(pristine, [path for place in self.places for path in (place.array, place.gradient)])
        self.notes = [f"parameters: {', '.join(taken)}"] if taken else []
        self.notes += [f"taken as no parameters, so unchecked: {', '.join(others)}"] if others else []

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, Any]:
        twin = self._copy(self._pristine)
        with _draws_from(0):
            return getattr(twin, "forward", twin)(*inputs, **options), SimpleNamespace(twin=twin, passes=0)

    def backward(self, dy: Any, used: Any) -> Any:
        """The gradients from the object's backward; gradients of parameters are added to their arrays."""
        twin = used.twin = self._copy(used.twin) if used.passes else used.twin
        used.passes += 1
        with _draws_from(used.passes):
            gradients = twin.backward(dy) if self._takes_dy else twin.backward()
        scale = 1.0 if self._takes_dy else dy
        for place in self.places:
            gradient = found_at(twin, place.gradient)
            if gradient is None:
                raise ConfigError(
                    f"{place.name}: expected its gradient in {dotted(place.gradient)} after backward, found nothing "
                    f'there; from_object(…, parameters={{"{place.name}": "PLACE"}}) names another place'
                )
            place.value.add(np.asarray(scale * np.asarray(gradient)))
        if gradients is None:
            return None
        several = isinstance(gradients, tuple | list)
        return tuple(scale * np.asarray(g) for g in gradients) if several else scale * np.asarray(gradients)

    def _copy(self, target: Any) -> Any:
        """A copy of the object, with the check's numbers as its parameters and with zeros as its gradients."""
        memo: dict[int, Any] = {}  # deepcopy takes from it, for every place that holds the same array
        for place in self.places:
            memo[id(found_at(target, place.array))] = np.array(place.value.data)
            old = found_at(target, place.gradient)
            if isinstance(old, np.ndarray | np.generic):
                memo[id(old)] = np.zeros_like(old, place.value.data.dtype)[() if isinstance(old, np.generic) else ...]
        return copy.deepcopy(target, memo)


def _takes_dy(backward: Callable[..., Any]) -> bool:
    """Whether backward takes an upstream gradient. Raises ConfigError if it needs more than that."""
    parameters = parameters_of(backward)
    if parameters is None:
        return True
    known = parameters.values()
    needed = [p.name for p in known if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) > 1:
        raise ConfigError(
            f"backward: expected backward(dy), got one that also needs {', '.join(needed[1:])}; a gradient needs no "
            f"more than dy: write def backward(self, {needed[0]}, {', '.join(f'{name}=0.0' for name in needed[1:])}), "
            "and keep the gradient of a parameter W as self.dW, also where W is updated"
        )
    return any(p.kind is not p.VAR_KEYWORD and p.kind is not p.KEYWORD_ONLY for p in known)


@contextmanager
def _draws_from(seed: int) -> Iterator[None]:
    """Within this context NumPy's global generator starts from a seed; its state is restored afterwards."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


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
    _expect_none_left(target, arrays | gradients)
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
    return [dotted(path) for path, *_ in _read(target, {id(found_at(target, path)) for path in known})]


def _read(target: Any, known: Collection[int]) -> Iterator[tuple[Path, HostArray, bool]]:
    """The float arrays beside the known ones that some forward reads, and whether others than __init__ write them."""
    for path, owner in owners_in(target):
        uses = _uses(type(owner))
        for name, x in vars(owner).items():
            if is_array(x) and id(x) not in known and name in uses.read:
                yield (*path, name), x, name in uses.state


def _expect_none_left(target: Any, known: set[int]) -> None:
    """Raise ConfigError for an unknown array that forward reads and that only __init__ writes."""
    for path, x, is_state in _read(target, known):
        if x.ndim > 0 and not is_state:
            place, name = dotted(path), path[-1]
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
