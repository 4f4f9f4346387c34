"""Which models may be recorded, or computed in one call: those whose every layer says that it is static.

A record repeats what a step did once, without Python, so whatever Python decides in a layer is decided once.
``static = True`` in the body of a class says that nothing is decided there but by shapes and by the layer's
attributes. npformer's own classes say it; a subclass has methods of its own and says it for itself.
"""

from __future__ import annotations

from typing import Any

from npformer.layers import Layer
from npformer.layers.owner import Owner, is_as_written


def is_static(model: Layer) -> bool:
    """Whether all layers and mechanisms of the model are declared static, with the methods of their classes."""
    parts = (thing for _, _, thing in model._inside() if hasattr(type(thing), "forward"))
    return all(map(_is_declared, (model, *parts)))


def has_own_ops(model: Layer) -> bool:
    """Whether model and all layers in it compute with the operations that its backend came with."""
    return model.backend.has_own_ops and all(each.backend is model.backend for each in model.all_layers())


def _is_declared(part: Any) -> bool:
    kind = type(part)
    if not isinstance(part, Owner) or vars(kind).get("static") is not True or not is_as_written(kind):
        return False
    return not any(callable(getattr(kind, name, None)) for name in vars(part))  # as after layer.forward = f
