"""A model's twin: the same numbers, other gradients, so that two threads can run backward at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import chain
from operator import is_
from typing import Any, TypeVar

from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter, ParameterView
from npformer.models.kinds import Model

AnyModel = TypeVar("AnyModel", bound=Model)


def gradient_twin(model: AnyModel) -> AnyModel:
    """A model that shares all with ``model`` but its layers, and adds gradients to an arena of its own."""
    twin: AnyModel = _twin_of(model, {})
    twin.arena = model.arena.twin(twin.owned_parameters())
    return twin


class Twins:
    """The twins of a model, made when they are needed, and anew once a layer has been changed."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._attributes = Attributes(model)
        self._twins: list[Model] = []
        self._seen: list[Any] = []

    def first(self, count: int) -> list[Model]:
        """So many of them; they do as the model does now."""
        now = self._attributes.now()
        if now is not self._seen:
            self._twins, self._seen = [], now
        while len(self._twins) < count:
            self._twins.append(gradient_twin(self._model))
        return self._twins[:count]


def _twin_of(thing: Any, made: dict[int, Any]) -> Any:
    """Copies of layers and parameters, however nested, each once; everything else is shared."""
    if isinstance(thing, list):
        return [_twin_of(item, made) for item in thing]
    if isinstance(thing, tuple | dict):
        return _twin_of_items(thing, made)
    if not isinstance(thing, Layer | Parameter | ParameterView):
        return thing
    if id(thing) not in made:
        made[id(thing)] = twin = copy(thing)
        vars(twin).update({name: _twin_of(value, made) for name, value in vars(thing).items()})
    return made[id(thing)]


def _twin_of_items(things: Any, made: dict[int, Any]) -> Any:
    """Of a tuple or dict; the very same one if it holds nothing to copy."""
    if id(things) in made:
        return made[id(things)]
    made[id(things)] = things  # for what is in it and refers to it
    items = things.values() if isinstance(things, dict) else things
    twins = [_twin_of(item, made) for item in items]
    if all(map(is_, twins, items)):
        return things
    twin: Any = None
    if isinstance(things, dict):
        twin = copy(things)
        twin.update(zip(things, twins, strict=True))
    else:
        twin = type(things)(*twins) if hasattr(things, "_fields") else tuple(twins)
    made[id(things)] = twin
    return twin


class Attributes:
    """What a model and the layers in it are made of."""

    def __init__(self, model: Layer) -> None:
        self._model = model
        self._parts: list[Iterable[Any]] = []  # each shows what it holds now
        self._seen: list[Any] = []

    def now(self) -> list[Any]:
        """All attributes in a fixed order: the same list as before if they are the same ones."""
        now = list(chain.from_iterable(self._parts))
        if not now or len(now) != len(self._seen) or not all(map(is_, now, self._seen)):
            self._parts = list(_parts_in(self._model, set()))
            self._seen = list(chain.from_iterable(self._parts))
        return self._seen


def _parts_in(value: Any, seen: set[int]) -> Iterator[Iterable[Any]]:
    """The attributes of a layer, its containers, those of its parameters, and the same of each layer in it."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Layer):
        yield vars(value).values()
        for part in vars(value).values():
            yield from _parts_in(part, seen)
    elif isinstance(value, Parameter):
        yield vars(value).values()
    elif isinstance(value, list | tuple | dict):
        items = value.values() if isinstance(value, dict) else value
        found = [part for item in items if isinstance(item, _MAY_HOLD) for part in _parts_in(item, seen)]
        yield items if found or isinstance(value, list) else _Length(value)
        yield from found


class _Length:
    """How long a container is, which holds nothing of interest yet: the same number again while it is as long."""

    def __init__(self, container: Any) -> None:
        self._container, self._length = container, -1

    def __iter__(self) -> Iterator[int]:
        length = len(self._container)
        if length != self._length:
            self._length = length
        yield self._length


_MAY_HOLD = (Layer, Parameter, list, tuple, dict)
