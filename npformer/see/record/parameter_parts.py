"""Which parameters an array of a layer's is made of, found by its place in memory.

A layer hands the data of its parameters to operations, and their gradients for backward to add to: whole, transposed
(a tied table), or a block of columns (W_q, W_k and W_v in one product). Each is a view of a parameter's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.layers import Layer
from npformer.typing import HostArray, HostArrays


class Part(NamedTuple):
    """A parameter in an array."""

    parameter: str  # its dotted name
    columns: tuple[int, int] | None  # the columns of the array that are this parameter; None: all
    transposed: bool


class _Owner(NamedTuple):
    """The memory of a parameter, or of several that are columns of one block."""

    data: Any
    grad: Any
    data_at: int  # the addresses of both
    grad_at: int
    memory: HostArray  # the number of each entry, in the order in which the entries lie in memory
    views: HostArrays  # dotted name -> the numbers of its entries, in its shape


class Parameters:
    """The parameters of a layer, as their data and gradients are in memory now."""

    def __init__(self, named: Mapping[str, Any], device: Device) -> None:
        self._host = device.host
        groups: dict[int, tuple[Any, dict[str, Any]]] = {}
        for name, parameter in named.items():
            owner = getattr(parameter, "owner", parameter)
            groups.setdefault(id(owner), (owner, {}))[1][name] = parameter
        self._owners = [_owner(owner, views, self._host) for owner, views in groups.values()]

    def in_array(self, x: Any) -> list[Part]:
        """The parameters that x, an input of an operation, is made of; [] if it is no parameter."""
        for owner in self._owners:
            places = _places(x, owner.data, owner.data_at, owner.memory)
            if places is not None:
                return [
                    part for name, entries in owner.views.items() if (part := _part(name, places, entries)) is not None
                ]
        return []

    def split(self, total: Any, added: Any) -> HostArrays:
        """What was added to each parameter, by name and in its shape, if added was added to total."""
        for owner in self._owners:
            places = _places(total, owner.grad, owner.grad_at, owner.memory)
            if places is not None:
                whole = np.zeros(owner.memory.size)
                whole[places] = self._host(added)
                return {name: whole[entries] for name, entries in owner.views.items() if np.isin(entries, places).any()}
        return {}

    def gradients(self) -> list[HostArray]:
        """Copies of the gradients of all memories, for ``changes``."""
        return [np.array(self._host(owner.grad)) for owner in self._owners]

    def changes(self, before: list[HostArray]) -> HostArrays:
        """What was added to each parameter since then; those that nothing was added to are left out."""
        changed: HostArrays = {}
        for owner, old in zip(self._owners, before, strict=True):
            change = np.asarray(self._host(owner.grad) - old).reshape(-1)
            if change.any():
                changed |= {name: change[entries] for name, entries in owner.views.items() if change[entries].any()}
        return changed


def aliases(target: Any, names: Mapping[str, Any]) -> dict[str, list[str]]:
    """Parameter -> its further names, if it is tied."""
    others: dict[str, list[str]] = {name: [] for name in names}
    if isinstance(target, Layer):
        for alias, view in target._all_views(""):
            same = [name for name, one in names.items() if getattr(one, "owner", one) is view.owner]
            if view.owner.columns:
                same = [name for name in same if names[name].name == view.name]
            if alias not in others and same and alias not in others[same[0]]:
                others[same[0]].append(alias)
    return others


def _owner(owner: Any, views: Mapping[str, Any], host: Any) -> _Owner:
    data = host(owner.data)
    numbers = np.arange(data.size).reshape(data.shape)
    laid_out = np.empty_like(data, dtype=np.int64)
    laid_out[...] = numbers
    entries = {name: getattr(view, "_view", lambda x: x)(numbers) for name, view in views.items()}
    return _Owner(
        owner.data, owner.grad, _address(owner.data), _address(owner.grad), laid_out.ravel(order="K"), entries
    )


def _places(x: Any, base: Any, base_at: int, memory: HostArray) -> HostArray | None:
    """The numbers of x's entries within base, in x's shape; None if x does not lie in base's memory."""
    if base_at < 0 or type(x) is not type(base) or x.dtype != base.dtype or x.size == 0:
        return None
    offset = _address(x) - base_at
    if not 0 <= offset < base.nbytes:
        return None
    strides = tuple(stride // x.itemsize * memory.itemsize for stride in x.strides)
    try:
        return np.ndarray(x.shape, np.int64, memory, offset // x.itemsize * memory.itemsize, strides)
    except ValueError:  # it reaches beyond
        return None


def _address(x: Any) -> int:
    """The address of the first entry; that of no array if the library does not tell."""
    if isinstance(x, np.ndarray):
        return int(x.__array_interface__["data"][0])
    return int(getattr(getattr(x, "data", None), "ptr", -1))


def _part(name: str, places: HostArray, entries: HostArray) -> Part | None:
    inside = np.isin(places, entries)
    if not inside.any():
        return None
    if inside.all():
        turned = places.ndim == 2 and not np.array_equal(places, entries) and np.array_equal(places, entries.T)
        return Part(name, None, turned)
    columns = np.flatnonzero(inside.any(axis=tuple(range(inside.ndim - 1))))
    return Part(name, (int(columns[0]), int(columns[-1]) + 1), False)
