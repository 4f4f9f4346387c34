"""A parameter: its values, its gradient, and its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from npformer.functional.arrays import namespace
from npformer.layers.owner import Owner
from npformer.typing import Array


class Parameter(Owner):
    """Trained values ``data``, and the gradient ``grad``, to which backward adds.

    ``columns`` names parts of a block: W_q, W_k and W_v are columns of one (C, 3C) matrix, so that
    one product computes all three, but they are listed, saved and checked as three parameters.
    """

    state_names = ("_grad",)

    def __init__(self, name: str, data: Array, columns: Mapping[str, slice] | None = None) -> None:
        self.name = name
        self.data = data
        self._grad: Array | None = None
        self.columns = dict(columns or {})

    def __repr__(self) -> str:
        return _told(self)

    @property
    def grad(self) -> Array:
        """Zeros, until backward adds to them. They are made at the first access, since an arena replaces them."""
        if self._grad is None:
            self._grad = namespace(self.data).zeros_like(self.data)
        return self._grad

    @grad.setter
    def grad(self, grad: Array) -> None:
        self._grad = grad

    def views(self) -> Iterator[ParameterView]:
        """The named parts, or the whole as one part."""
        if not self.columns:
            yield ParameterView(self.name, self, lambda x: x)
        for name, columns in self.columns.items():
            yield ParameterView(name, self, partial(_columns, columns))

    def transposed(self, name: str) -> ParameterView:
        """The same values as a transposed matrix (for a tied output projection)."""
        return ParameterView(name, self, lambda x: namespace(x).matrix_transpose(x))


def _told(self: Parameter | ParameterView) -> str:
    return f"<{type(self).__name__} {self.name} {tuple(self.data.shape)}>"


class Buffer(Owner):
    """Values that a layer keeps but that are not trained: saved with the parameters, without a gradient."""

    def __init__(self, name: str, data: Array) -> None:
        self.name = name
        self.data = data


def _columns(columns: slice, x: Array) -> Array:
    return x[..., columns]


class ParameterView(Owner):
    """A part of a parameter, or a transposed parameter. ``data`` and ``grad`` are views, never copies."""

    def __init__(self, name: str, owner: Parameter, view: Callable[[Array], Array]) -> None:
        self.name = name
        self.owner = owner
        self._view = view

    def __repr__(self) -> str:
        return _told(self)

    @property
    def data(self) -> Array:
        return self._view(self.owner.data)

    @property
    def grad(self) -> Array:
        return self._view(self.owner.grad)
