"""A model made of shapes: which arrays a configuration asks for, found out without making one of them.

The model's own constructors say so. They run on a backend whose arrays have a shape and no numbers, with a generator
that draws none, so no second description of a model can differ from the first. A claim that is not to be trusted gets
a limit: once the model has more arrays, or more numbers, than are there, it is given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from npformer.backend import PLAIN, Backend
from npformer.errors import ConfigError
from npformer.models.config import ModelConfig
from npformer.models.kinds import Model, build_model


@dataclass
class Limit:
    """So many arrays, and so many numbers in all of them together, may a model still be made of."""

    arrays: float = math.inf
    numbers: float = math.inf

    def take(self, shape: tuple[int, ...]) -> None:
        """Count an array. Raises ConfigError if it is one too many."""
        self.arrays -= 1
        self.numbers -= math.prod(shape)
        if self.arrays < 0 or self.numbers < 0:
            raise ConfigError("expected no more arrays and numbers than there are, got the configuration of more")


def model_of_shapes(config: ModelConfig, limit: Limit | None = None) -> Model:
    """The model that config describes; its parameters and buffers have shapes, and no numbers.

    Raises ConfigError beyond limit, at the first array that is too much.
    """
    backend = _Shapes("shapes", PLAIN, _Nowhere(), limit=limit or Limit())
    nothing: Any = _NoDraws()
    return build_model(config, backend=backend, seed=nothing)


class _Shape:
    """An array without numbers: what is read from it has a shape, what is written to it is forgotten."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.ndim = shape, len(shape)

    def __getitem__(self, where: Any) -> _Shape:
        return _Shape(*np.broadcast_to(np.int8(0), self.shape)[where].shape)

    def __setitem__(self, where: Any, value: Any) -> None:
        pass

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return _FUNCTIONS

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """np.concatenate, which joins the first numbers of a block on the host."""
        if function is not np.concatenate:
            return NotImplemented
        parts, axis = arguments[0], options["axis"]
        sizes = list(parts[0].shape)
        sizes[axis] = sum(part.shape[axis] for part in parts)
        return _Shape(*sizes)


#: The functions of the array API that making a model asks for.
_FUNCTIONS = SimpleNamespace(
    __name__="shapes",
    zeros_like=lambda x: x,
    reshape=lambda x, shape: _Shape(*shape),
    matrix_transpose=lambda x: _Shape(*x.shape[:-2], x.shape[-1], x.shape[-2]),
)


class _NoDraws(np.random.Generator):
    """A generator that draws shapes."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def uniform(self, low: Any, high: Any, size: Any) -> Any:  # type: ignore[override]
        return _Shape(*size)

    def normal(self, mean: Any, deviation: Any, size: Any) -> Any:  # type: ignore[override]
        return _Shape(*size)


class _Nowhere:
    """A device that has no memory: nothing is asked of it."""

    name = "nowhere"

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{name}: a model made of shapes has no numbers to compute with")


@dataclass(frozen=True)
class _Shapes(Backend):
    """A backend on which nothing is stored; limit says how much may be asked for."""

    limit: Limit = field(default_factory=Limit, compare=False)

    def array(self, host: Any) -> Any:
        self.limit.take(host.shape)
        return _Shape(*host.shape)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        return _Shape(*shape)
