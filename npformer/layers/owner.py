"""Version numbers: a model's version grows when a part of it is set, so what was compiled for it knows it is stale.

A reader of the mathematics may leave this file out.

A training step checks a model, makes replicas of it and records its operations; a fused kernel takes the addresses of
its arrays. All of this is valid only for the model's structure: its layers, parameters and their attributes. So every
``Owner`` (a layer, a parameter, a mechanism) takes the next number of a global counter whenever one of its attributes
is set or deleted: a sub-layer, a dropout rate, eps, a backend, a method, ``__class__``. Numbers only grow, and
replacing a part gives its owner a new number, so the largest number in a model's tree is the model's version.

Lists and dicts can be edited in place, without setting an attribute. So a plain list or dict that is set becomes a
``LayerList`` or ``LayerDict``, a copy that counts its edits; tuples cannot be edited. Setting an attribute on a
class (``FeedForward.forward = f``) makes a new version of every model.

Not counted: numbers written into an array (``weight.data[...] = x``), attributes that a class lists in
``state_names``, and edits of other objects stored on a layer.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import count
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, ref

from npformer.errors import ConfigError

_numbers = count(1)
_newest = 0  # the last number taken
_newest_of_classes = 0  # the last number taken for a class


def _next_number() -> int:
    global _newest
    _newest = next(_numbers)
    return _newest


class OwnerType(ABCMeta):
    """The metaclass of owners: setting an attribute on such a class makes a new version of every model."""

    state_names: tuple[str, ...] = ()

    def __setattr__(cls, name: str, value: Any) -> None:
        before = vars(cls).get(name)
        super().__setattr__(name, value)
        cls._changed(name, before)

    def __delattr__(cls, name: str) -> None:
        before = vars(cls).get(name)
        super().__delattr__(name)
        cls._changed(name, before)

    def _changed(cls, name: str, before: Any) -> None:
        global _newest_of_classes
        if name not in cls.state_names:
            _newest_of_classes = _next_number()
        first = _replaced.pop((cls, name), before)
        if vars(cls).get(name) is not first and (name == "__call__" or not name.startswith(("__", "_abc_"))):
            _replaced[cls, name] = first


#: The original attribute of a class, or None, before it was set or deleted on the class.
_replaced: dict[tuple[OwnerType, str], Any] = {}


def attributes_set_later(kind: type) -> list[str]:
    """The names that are not as the class bodies of kind and its bases define them."""
    return [name for each, name in _replaced if each in kind.__mro__ and name not in each.state_names]


class Owner(metaclass=OwnerType):
    """An object that counts its changes; see the module's docstring."""

    #: Attributes that are state, not structure, such as a forward's records. Setting one is not counted.
    state_names: ClassVar[tuple[str, ...]] = ()
    _version = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _counting(value, {}))
        if name not in self.state_names:
            vars(self)["_version"] = _next_number()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        vars(self)["_version"] = _next_number()


class LayerList(list[Any]):
    """A list that counts its edits."""

    _version = 0


class LayerDict(dict[Any, Any]):
    """A dict that counts its edits."""

    _version = 0


def _count_edits(kind: type[LayerList | LayerDict], names: str) -> None:
    """Make these methods of kind count edits, also of the lists and dicts that they insert."""

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def edit(self: Any, *given: Any, **named: Any) -> Any:
            counting = {key: _counting(x, {}) for key, x in named.items()}
            found = method(self, *(_counting(x, {}) for x in given), **counting)
            self._version = _next_number()
            return found

        return edit

    for name in names.split():
        setattr(kind, name, counted(getattr(kind, name)))


_count_edits(
    LayerList, "__init__ append clear extend insert pop remove reverse sort __delitem__ __iadd__ __imul__ __setitem__"
)
_count_edits(LayerDict, "__init__ clear pop popitem setdefault update __delitem__ __ior__ __setitem__")


def _counting(value: Any, made: dict[int, Any]) -> Any:
    """value with each plain list or dict replaced by one that counts, at any depth; value itself if there is none.

    Raises ConfigError for layers or parameters in a list or dict of another kind.
    """
    if not isinstance(value, list | dict | tuple) or isinstance(value, LayerList | LayerDict):
        return value
    if id(value) in made:  # it is in itself
        return made[id(value)]
    if type(value) is list:
        made[id(value)] = items = LayerList()
        list.extend(items, (_counting(item, made) for item in value))
        return items
    if type(value) is dict:
        made[id(value)] = table = LayerDict()
        dict.update(table, {key: _counting(item, made) for key, item in value.items()})
        return table
    if isinstance(value, tuple):
        found = [_counting(item, made) for item in value]
        if all(one is other for one, other in zip(found, value, strict=True)):
            return value
        return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
    if any(isinstance(item, Owner) for item in walk(value)):
        raise ConfigError(
            "layers: expected them in a tuple, a plain list or a plain dict, got them in one of type "
            f"{type(value).__name__}, whose edits would go unnoticed"
        )
    return value


def version_of(root: Owner) -> int:
    """The number of root's last change: in itself, in its parts at any depth, or in any owner's class.

    Fast while nothing has changed at all; it takes some µs if only other models have.
    """
    newest, (looked_at, version, parts) = _newest, _seen.get(root, (-1, -1, []))
    if looked_at != newest:
        now = max((part._version for known in parts if (part := known()) is not None), default=0)
        if now != version:
            found = [part for part in walk(root) if hasattr(type(part), "_version")]
            version, parts = max(part._version for part in found), [ref(part) for part in found]
        _seen[root] = newest, version, parts
    return max(version, _newest_of_classes)


#: owner -> the newest number when it was looked at, its version then, and all that counts in it (weakly).
_seen: WeakKeyDictionary[Owner, tuple[int, int, list[ref[Any]]]] = WeakKeyDictionary()


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
