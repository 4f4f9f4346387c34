"""A model's replica: the same numbers, other gradients, so that two threads can run backward at once."""

from __future__ import annotations

from copy import copy
from operator import is_
from typing import Any, TypeVar

from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter, ParameterView
from npformer.models import Model

AnyModel = TypeVar("AnyModel", bound=Model)


def gradient_replica(model: AnyModel) -> AnyModel:
    """A model that shares all with ``model`` but its layers, and adds gradients to an arena of its own."""
    replica: AnyModel = _copied(model, {})
    replica.arena = model.arena.replica(replica.owned_parameters())
    return replica


class Replicas:
    """The replicas of a model, made when they are needed, and anew for each version of it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._made: list[Model] = []
        self._version = -1

    def first(self, count: int, version: int) -> list[Model]:
        """So many of them; they do as the model does now, in this version."""
        if version != self._version:
            self._made, self._version = [], version
        while len(self._made) < count:
            self._made.append(gradient_replica(self._model))
        return self._made[:count]


def _copied(thing: Any, made: dict[int, Any]) -> Any:
    """Copies of layers and parameters, however nested, each once; everything else is shared."""
    if id(thing) in made:
        return made[id(thing)]
    if isinstance(thing, Layer | Parameter | ParameterView):
        made[id(thing)] = replica = copy(thing)
        vars(replica).update({name: _copied(value, made) for name, value in vars(thing).items()})
        return replica
    if not isinstance(thing, list | tuple | dict):
        return thing
    made[id(thing)] = thing  # for what is in it and refers to it
    items = list(thing.values()) if isinstance(thing, dict) else thing
    copies = [_copied(item, made) for item in items]
    if not all(map(is_, copies, items)):
        made[id(thing)] = _of_items(thing, copies)
    return made[id(thing)]


def _of_items(things: Any, items: list[Any]) -> Any:
    """A list, tuple or dict like things, with these items."""
    if isinstance(things, tuple):
        return type(things)(*items) if hasattr(things, "_fields") else tuple(items)
    found = copy(things)
    if isinstance(things, dict):
        found.update(zip(things, items, strict=True))
    else:
        found[:] = items
    return found
