"""Replicas of a model: the same values but separate gradients, so that threads can run backward in parallel."""

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
    """A copy of ``model`` with its own layers and its own gradient arena, which shares everything else."""
    shared = {id(thing): thing for thing in walk(model) if not isinstance(thing, _COPIED)}
    replica = deepcopy(model, shared)
    replica.arena = model.arena.replica(replica.owned_parameters())
    return replica


class Replicas:
    """The replicas of a model, created when they are needed, and again for each version of the model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._made: list[Model] = []
        self._version = -1

    def first(self, count: int, version: int) -> list[Model]:
        """The first count replicas, of this version of the model."""
        if version != self._version:
            self._made, self._version = [], version
        while len(self._made) < count:
            self._made.append(gradient_replica(self._model))
        return self._made[:count]
