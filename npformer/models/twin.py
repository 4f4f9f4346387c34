"""A model's twin: the same numbers, other gradients, so that two threads can run backward at once."""

from __future__ import annotations

import copy
from typing import Any

from npformer.models.transformer import Transformer


def gradient_twin(model: Transformer) -> Transformer:
    """A model that shares model's parameter values, and adds gradients to an arena of its own."""
    shared: list[Any] = [model.backend, model.arena]
    for _, parameter, _ in model.owned_parameters():
        shared += [parameter.data, parameter.grad]
    twin = copy.deepcopy(model, {id(thing): thing for thing in shared})
    twin.arena = model.arena.twin(twin.owned_parameters())
    return twin
