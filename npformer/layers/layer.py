"""What all layers share: parameters with stable names, and an inference spelling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npformer.backend import Backend, Ops
from npformer.backend.workspace import side_by_side
from npformer.functional.arrays import namespace
from npformer.layers.parameter import Buffer, Parameter, ParameterView


class Layer:
    """Base of every layer and model. A layer writes nothing to itself but gradients, by adding.

    Subclasses define ``forward(...) -> (y, cache)`` and ``backward(dy, cache)``, which returns the
    gradients of forward's array inputs and adds those of the parameters to ``Parameter.grad``.
    Parameters and sub-layers are found among the attributes, and in lists, tuples and dicts there, in the order
    in which ``__init__`` set them; that order and the attribute names make the dotted names.
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

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The output alone, keeping no cache: the spelling for inference."""
        return self.forward(*inputs, **options)[0]

    def _inside(self, prefix: str = "", around: tuple[Layer, ...] = ()) -> Iterator[tuple[str, str, Any]]:
        """(prefix, name, thing) for all that is in this layer, however deep, but not what it is itself in."""
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
        """This layer and all those in it."""
        yield self
        yield from (thing for _, _, thing in self._inside() if isinstance(thing, Layer))

    def repeats_itself(self) -> bool:
        """Whether this layer and all those in it do the same at every step, but for shapes and their attributes.

        A backend may write a training step down and repeat it, with other numbers, without Python. What Python decides
        would then be decided once; so layers, mechanisms, methods and operations from elsewhere are taken to decide
        anew.
        """
        return self.is_ours() and self.has_own_ops()

    def is_ours(self) -> bool:
        """Whether this layer and all those in it, mechanisms too, are npformer's, with npformer's methods."""
        passes = (thing for _, _, thing in self._inside() if hasattr(type(thing), "forward"))
        return all(_is_ours(each) and not is_hooked(each) for each in (self, *passes))

    def has_own_ops(self) -> bool:
        """Whether this layer and all those in it compute with the operations that its backend came with."""
        return self.backend.has_own_ops and all(each.backend is self.backend for each in self.all_layers())

    def __setattr__(self, name: str, value: Any) -> None:
        if (name == "backend" and name in vars(self)) or callable(getattr(type(self), name, None)):
            changed_by_hand[0] = object()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        changed_by_hand[0] = object()
        super().__delattr__(name)

    def _all_views(self, prefix: str) -> Iterator[tuple[str, ParameterView]]:
        """Every dotted name with its parameter, tied ones under each of their names."""
        for before, _, thing in self._inside(prefix):
            if isinstance(thing, Parameter):
                yield from ((before + view.name, view) for view in thing.views())
            elif isinstance(thing, ParameterView):
                yield before + thing.name, thing

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, ParameterView]]:
        """(dotted name, parameter with data and grad), a tied parameter once, under its first name."""
        seen: set[tuple[int, str]] = set()
        for name, view in self._all_views(prefix):
            part = (id(view.owner), view.name if view.owner.columns else "")
            if part not in seen:
                seen.add(part)
                yield name, view

    def owned_parameters(self) -> list[tuple[str, Parameter, tuple[str, ...]]]:
        """(dotted name, parameter, its aliases), each block of memory once: what an arena packs."""
        table: dict[int, tuple[str, Parameter, list[str]]] = {}
        for name, view in self._all_views(""):
            if view.owner.columns:  # a block is known by its own name; its columns are parts, not aliases
                name = name.removesuffix(view.name) + view.owner.name
            first, _, aliases = table.setdefault(id(view.owner), (name, view.owner, []))
            if name != first and name not in aliases:
                aliases.append(name)
        return [(name, owner, tuple(aliases)) for name, owner, aliases in table.values()]

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Buffer]]:
        """(dotted name, buffer): what is saved with the parameters and not trained."""
        for before, _, thing in self._inside(prefix):
            if isinstance(thing, Buffer):
                yield before + thing.name, thing

    def zero_grad(self) -> None:
        """Set every gradient to 0."""
        for _, parameter, _ in self.owned_parameters():
            parameter.grad[...] = 0

    def num_parameters(self) -> int:
        """How many numbers are learned, tied ones counted once."""
        return sum(int(view.data.size) for _, view in self.named_parameters())


#: An object, and another one once a method or the backend of any layer was replaced: who looked before looks again.
changed_by_hand: list[object] = [object()]

#: What the body of a class may name and still do as the class above it does.
_NO_METHODS = {"__init__", "__module__", "__doc__", "__qualname__", "__annotations__", "__annotate__",
               "__annotations_cache__", "__annotate_func__", "__firstlineno__", "__static_attributes__", "__dict__",
               "__weakref__", "__orig_bases__", "__parameters__", "__classdictcell__"}  # fmt: skip


def is_hooked(thing: Any) -> bool:
    """Whether somebody has put a method of his own, a forward or another, on this one layer, or mechanism."""
    return any(callable(getattr(type(thing), name, None)) for name in getattr(thing, "__dict__", ()))


def _is_ours(thing: Any) -> bool:
    """Whether all that it does is npformer's: a class from elsewhere may add nothing but how it is made."""
    known = ("npformer.", "builtins", "typing")
    return all(each.__module__.startswith(known) or vars(each).keys() <= _NO_METHODS for each in type(thing).__mro__)


def things_in(name: str, value: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(dotted name, thing) of all that is in value, however nested."""
    if not isinstance(value, list | tuple | dict):
        yield name, value
    elif not any(value is each for each in around):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if isinstance(item, _MAY_HOLD):
                yield from things_in(f"{name}.{key}", item, (*around, value))


def concat_last(*parts: Any) -> Any:
    """Arrays (..., C_i) side by side as (..., Σ C_i); no copy if they lie so in memory."""
    found = side_by_side(parts)
    return namespace(parts[0]).concat(parts, axis=-1) if found is None else found


#: What a container is looked through for; all else in it, a vocabulary's words, is no part of a layer.
_MAY_HOLD = (Layer, Parameter, ParameterView, Buffer, list, tuple, dict)
