"""Version numbers: a model's version grows when a part of it is set, so what was compiled for it knows it is stale.

A reader of the mathematics may leave this file out.

A training step checks a model, makes replicas of it and records its operations, with the addresses of its
arrays. All of this is valid only for the model's structure: its layers, parameters and their attributes. So every
``Owner`` (a layer, a parameter, a mechanism) takes the next number of a global counter whenever one of its attributes
is set or deleted: a sub-layer, a dropout rate, eps, a backend, a method, ``__class__``. Numbers only grow, and
replacing a part gives its owner a new number, so the largest number in a model's tree is the model's version.

Lists and dicts can be edited in place, without setting an attribute. So a plain list that is set becomes a tuple, a
plain dict one that is read only, at any depth; an edit raises ConfigError, which says how to set the attribute anew.

Not counted: numbers written into an array (``weight.data[...] = x``), attributes that a class lists in
``state_names``, edits of other objects stored on a layer, and attributes of a class: one that is patched after
compiling (``FeedForward.forward = f``) is not noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar, NoReturn

from npformer.errors import ConfigError

_numbers = count(1)
_newest = 0  # the last number taken


class Owner:
    """An object that counts its changes; see the module's docstring."""

    #: Attributes that are state, not structure, such as a forward's records. Setting one is not counted.
    state_names: ClassVar[tuple[str, ...]] = ()
    _version = 0
    _seen = -1, 0  # the newest number when this was last looked at, and its version then

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value if name in self.state_names else _fixed(value))
        self._count(name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._count(name)

    def _count(self, name: str) -> None:
        global _newest
        if name not in self.state_names:
            vars(self)["_version"] = _newest = next(_numbers)


def version_of(root: Owner) -> int:
    """The number of root's last change: in itself, or in its parts at any depth.

    Fast while nothing has changed at all; it looks through root if only other models have.
    """
    newest, (looked_at, version) = _newest, root._seen
    if looked_at != newest:
        version = max(part._version for part in walk(root) if isinstance(part, Owner))
        vars(root)["_seen"] = newest, version
    return version


def walk(root: Any) -> Iterator[Any]:
    """Each object in root once, root first: attributes of owners, items of lists, tuples and dicts."""
    waiting, seen = [root], {id(root)}
    while waiting:
        yield (value := waiting.pop())
        inside = vars(value) if isinstance(value, Owner) else value
        if isinstance(inside, list | tuple | dict):
            for item in inside.values() if isinstance(inside, dict) else inside:
                if id(item) not in seen:
                    seen.add(id(item))
                    waiting.append(item)


def _fixed(value: Any) -> Any:
    """value with each plain list or dict replaced by one that is not edited, at any depth; value itself if none is.

    Raises ConfigError for layers or parameters in a list or dict of another kind.
    """
    if type(value) is list:
        return _Tuple(map(_fixed, value))
    if type(value) is dict:
        return _Dict({key: _fixed(item) for key, item in value.items()})
    if isinstance(value, tuple):
        fixed = [_fixed(item) for item in value]
        if any(one is not other for one, other in zip(fixed, value, strict=True)):
            return type(value)(*fixed) if hasattr(value, "_fields") else tuple(fixed)
    elif not isinstance(value, Owner | _Dict) and any(isinstance(item, Owner) for item in walk(value)):
        raise ConfigError(
            "layers: expected them in a tuple, a plain list or a plain dict, got them in one of type "
            f"{type(value).__name__}, whose edits would go unnoticed"
        )
    return value


def _refused(*arguments: Any, **named: Any) -> NoReturn:
    raise ConfigError(
        "a layer's list or dict: expected the attribute set anew, as in layer.layers = (*layer.layers, new) or "
        "layer.table = layer.table | {key: new}, got an edit in place, which would go unnoticed"
    )


class _Tuple(tuple[Any, ...]):
    """What a list becomes: a tuple that says what to do in place of an edit."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refused
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refused


class _Dict(dict[Any, Any]):
    """What a dict becomes: one that is not edited."""

    clear = pop = popitem = setdefault = update = __delitem__ = __ior__ = __setitem__ = _refused

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is filled as it is made
        return _Dict, (dict(self),)


def patched_methods(kind: type) -> list[str]:
    """The names of methods of kind and its bases that were not written in the bodies of these classes, or are wrapped.

    A method is known by its module and its qualified name.
    """
    return [
        name
        for base in kind.__mro__
        for name, value in (vars(base).items() if issubclass(base, Owner) else ())
        if callable(value) and not isinstance(value, type) and (name == "__call__" or not name.startswith("__"))
        if (value.__module__, getattr(value, "__qualname__", "")) != (base.__module__, f"{base.__qualname__}.{name}")
        or hasattr(value, "__wrapped__")
    ]
