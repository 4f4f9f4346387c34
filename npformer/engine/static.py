"""Which models may be recorded: those whose layers are all declared static.

A record repeats the operations of one step without Python, so Python's control flow in a layer runs only once.
``static = True`` in a class body declares that the control flow depends only on shapes and on the layer's
attributes. npformer's classes declare it. A subclass has methods of its own and must declare it itself. A method that
is patched or wrapped in a class voids the declaration; after the model was compiled it is not noticed.
"""

from __future__ import annotations

from typing import Any

from npformer.layers import Layer
from npformer.layers.owner import Owner, patched_methods


def is_static(model: Layer) -> bool:
    """Whether all layers and mechanisms of the model are declared static, with the methods of their classes."""
    parts = _parts(model)
    return all(map(_is_declared, {type(part) for part in parts})) and not any(map(_has_own_methods, parts))


def is_npformers(model: Layer) -> bool:
    """Whether all layers and mechanisms of the model are npformer's: what they do between two operations is known."""
    return all(type(part).__module__.startswith("npformer.") for part in _parts(model))


def has_own_ops(model: Layer) -> bool:
    """Whether model and all layers in it compute with the operations its backend was built with."""
    return model.backend.has_own_ops and all(each.backend is model.backend for each in model.all_layers())


def _parts(model: Layer) -> list[Any]:
    return [model, *(thing for _, _, thing in model._inside() if hasattr(type(thing), "forward"))]


def _is_declared(kind: type) -> bool:
    return issubclass(kind, Owner) and vars(kind).get("static") is True and not patched_methods(kind)


def _has_own_methods(part: Owner) -> bool:
    return any(callable(getattr(type(part), name, None)) for name in vars(part))  # as after layer.forward = f
