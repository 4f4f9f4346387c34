"""A model's replica: the same numbers, other gradients, so that two threads can run backward at once."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from npformer.layers.layer import Layer
from npformer.layers.owner import walk
from npformer.layers.parameter import Parameter, ParameterView
from npformer.models import Model

AnyModel = TypeVar("AnyModel", bound=Model)
_COPIED = (Layer, Parameter, ParameterView, list, tuple, dict)


def gradient_replica(model: AnyModel) -> AnyModel:
    """A model that shares all with ``model`` but its layers, and adds gradients to an arena of its own."""
    shared = {id(thing): thing for thing in walk(model) if not isinstance(thing, _COPIED)}
    replica = deepcopy(model, shared)
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
