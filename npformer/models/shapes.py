"""A model of shapes, as on PyTorch's meta device: the arrays of a configuration without allocating them.

The model's own constructors run on a backend whose arrays have a shape and no numbers, with a generator
that draws nothing, so no second description of a model can differ from the first. For a configuration from an untrusted
file there is a limit: construction stops once the model has more arrays, or more numbers, than the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npformer.backend import PLAIN, Backend
from npformer.errors import ConfigError
from npformer.models.config import ModelConfig
from npformer.models.kinds import Model, build_model
from npformer.typing import Shape


@dataclass
class Limit:
    """The number of arrays, and their total count of numbers, that a model may still allocate."""

    arrays: float = math.inf
    numbers: float = math.inf

    def take(self, shape: Shape) -> None:
        """Count an array. Raises ConfigError if it exceeds the limit."""
        self.arrays -= 1
        self.numbers -= math.prod(shape)
        if self.arrays < 0 or self.numbers < 0:
            raise ConfigError("expected no more arrays and numbers than there are, got the configuration of more")


def model_of_shapes(config: ModelConfig, limit: Limit | None = None) -> Model:
    """The model that config describes; its parameters and buffers have shapes, and no numbers.

    Raises ConfigError at the first array beyond limit.
    """
    backend = _Shapes("shapes", PLAIN, _Nowhere(), limit=limit or Limit())
    no_seed: Any = _NoDraws()
    return build_model(config, backend=backend, seed=no_seed)


class _ShapeAlone:
    """An array without numbers: reading gives shapes, writing does nothing."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.ndim = shape, len(shape)

    def __getitem__(self, where: Any) -> _ShapeAlone:
        return _ShapeAlone(*np.broadcast_to(np.int8(0), self.shape)[where].shape)

    def __setitem__(self, where: Any, value: Any) -> None:
        pass

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return _Functions

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """np.concatenate, which joins the initial values of a block on the host."""
        if function is not np.concatenate:
            return NotImplemented
        parts, axis = arguments[0], options["axis"]
        sizes = list(parts[0].shape)
        sizes[axis] = sum(part.shape[axis] for part in parts)
        return _ShapeAlone(*sizes)


class _Functions:
    """The functions of the array API that model constructors call. A class can be put into a set, as some ask."""

    zeros_like = staticmethod(lambda x: x)
    reshape = staticmethod(lambda x, shape: _ShapeAlone(*shape))
    matrix_transpose = staticmethod(lambda x: _ShapeAlone(*x.shape[:-2], x.shape[-1], x.shape[-2]))


class _NoDraws(np.random.Generator):
    """A generator that draws shapes."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def uniform(self, low: Any, high: Any, size: Any) -> Any:  # type: ignore[override]
        return _ShapeAlone(*size)

    def normal(self, mean: Any, deviation: Any, size: Any) -> Any:  # type: ignore[override]
        return _ShapeAlone(*size)


class _Nowhere:
    """A device without memory, whose methods must not be called."""

    name = "nowhere"

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{name}: a model made of shapes has no numbers to compute with")


@dataclass(frozen=True)
class _Shapes(Backend):
    """A backend that stores no numbers; limit bounds the arrays that it may create."""

    limit: Limit = field(default_factory=Limit, compare=False)

    def array(self, host: Any) -> Any:
        self.limit.take(host.shape)
        return _ShapeAlone(*host.shape)

    def zeros(self, shape: Shape) -> Any:
        return _ShapeAlone(*shape)
