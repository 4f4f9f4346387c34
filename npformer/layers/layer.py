"""The base class of all layers: parameters with stable names, and ``layer(x)`` for inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npformer.backend import Backend, Ops
from npformer.backend.workspace import side_by_side
from npformer.functional.arrays import namespace
from npformer.io.notebook import Displayed
from npformer.layers.cache_stack import CacheStack
from npformer.layers.owner import Owner
from npformer.layers.parameter import Buffer, Parameter, ParameterView
from npformer.layers.tree import tree_text


class Layer(Owner, Displayed):
    """Base of every layer and model. Forward and backward change only a layer's gradients, by adding to them.

    Subclasses define ``forward(...) -> (y, cache)`` and ``backward(dy, cache)``, which returns the
    gradients of forward's array inputs and adds those of the parameters to ``Parameter.grad``.
    Parameters and sub-layers are found among the attributes, also inside lists, tuples and dicts, in the order
    in which ``__init__`` set them. The attribute names form the dotted names. A plain list or dict set as an attribute
    becomes a tuple or a dict that is read only (see ``owner.py``), so build it before it is set.

    ``static = True`` in a class body declares that its methods run the same operations at every step: Python's control
    flow depends only on shapes and the layer's attributes. Then a step may be recorded and replayed without Python. The
    declaration is not inherited, since a subclass may do something else; it declares itself.
    """

    backend: Backend

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def ops(self) -> Ops:
        """The table of operations of this layer's backend."""
        return self.backend.ops

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, Any]:
        """Returns (output, cache)."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, dy: Any, cache: Any) -> Any:
        """Returns the gradients of forward's array inputs: one, a tuple, or None; adds those of parameters."""
        raise NotImplementedError(f"{type(self).__name__} must define backward")

    def kept(self, output_and_cache: tuple[Any, Any]) -> tuple[Any, CacheStack]:
        """What forward of a layer of one operation returns: its output, and a stack with its cache."""
        cache = CacheStack(self)
        return cache.keep(output_and_cache), cache

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The output without a cache, for inference."""
        return self.forward(*inputs, **options)[0]

    def __repr__(self) -> str:
        """The tree of its parts, with their parameters' shapes and counts."""
        return tree_text(self)

    def _inside(self, prefix: str = "", around: tuple[Layer, ...] = ()) -> Iterator[tuple[str, str, Any]]:
        """(prefix, name, object) for all parameters and sub-layers in this layer, at any depth, without cycles."""
        around = (*around, self)
        for name, thing in self._members():
            if not isinstance(thing, Layer):
                yield prefix, name, thing
            elif not any(thing is each for each in around):
                yield prefix, name, thing
                yield from thing._inside(f"{prefix}{name}.", around)

    def _members(self) -> Iterator[tuple[str, Any]]:
        """Sub-layers and parameters by attribute name; those of lists as name.0, name.1, …, of dicts as name.key."""
        for name, value in vars(self).items():
            if isinstance(value, list | tuple | dict):
                yield from things_in(name, value)
            else:
                yield name, value

    def all_layers(self) -> Iterator[Layer]:
        """This layer and all layers in it."""
        yield self
        yield from (thing for _, _, thing in self._inside() if isinstance(thing, Layer))

    def _all_views(self, prefix: str) -> Iterator[tuple[str, ParameterView]]:
        """Every dotted name with its parameter; a tied parameter under each of its names."""
        for before, _, thing in self._inside(prefix):
            if isinstance(thing, Parameter):
                yield from ((before + view.name, view) for view in thing.views())
            elif isinstance(thing, ParameterView):
                yield before + thing.name, thing

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, ParameterView]]:
        """(dotted name, parameter with data and grad); a tied parameter once, under its first name."""
        seen: set[tuple[int, str]] = set()
        for name, view in self._all_views(prefix):
            part = (id(view.owner), view.name if view.owner.columns else "")
            if part not in seen:
                seen.add(part)
                yield name, view

    def owned_parameters(self) -> list[tuple[str, Parameter, tuple[str, ...]]]:
        """(dotted name, parameter, its aliases), each block of memory once. An arena packs these."""
        table: dict[int, tuple[str, Parameter, list[str]]] = {}
        for name, view in self._all_views(""):
            if view.owner.columns:  # a block is known by its own name; its columns are parts, not aliases
                name = name.removesuffix(view.name) + view.owner.name
            first, _, aliases = table.setdefault(id(view.owner), (name, view.owner, []))
            if name != first and name not in aliases:
                aliases.append(name)
        return [(name, owner, tuple(aliases)) for name, owner, aliases in table.values()]

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """(dotted name, buffer): arrays that are saved with the parameters but not trained."""
        for before, _, thing in self._inside():
            if isinstance(thing, Buffer):
                yield before + thing.name, thing

    def zero_grad(self) -> None:
        """Set every gradient to 0."""
        for _, parameter, _ in self.owned_parameters():
            parameter.grad[...] = 0

    def num_parameters(self) -> int:
        """The count of trained numbers; tied ones count once."""
        return sum(int(view.data.size) for _, view in self.named_parameters())


def things_in(name: str, value: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(dotted name, object) for all parameters and layers in value, at any depth."""
    if not isinstance(value, list | tuple | dict):
        yield name, value
    elif not any(value is each for each in around):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if isinstance(item, _MAY_HOLD):
                yield from things_in(f"{name}.{key}", item, (*around, value))


def concat_last(*parts: Any) -> Any:
    """Concatenate arrays (..., C_i) to (..., Σ C_i); a view if they are adjacent in memory already."""
    whole = side_by_side(parts)
    return namespace(parts[0]).concat(parts, axis=-1) if whole is None else whole


#: The types that are looked for in containers. Other items, such as a vocabulary's words, are no part of a layer.
_MAY_HOLD = (Layer, Parameter, ParameterView, Buffer, list, tuple, dict)
