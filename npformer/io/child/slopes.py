"""The derivative of a learner's own forward, number by number, for a forward that differs from the exercise's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from values import as_tuple, mapped  # type: ignore[import-not-found]

H = 1e-5  # of a central difference


def slopes(forward: Callable[..., Any], arguments: Any, upstream: Any, leaves: list[Any]) -> dict[str, Any]:
    """For each leaf (name, path in the arguments, shape): the slope of Σ dy·y along each of its numbers."""
    upstream = as_tuple(upstream)

    def loss(path: list[Any], step: Any) -> float:
        moved = list(mapped(lambda x: x.copy(), arguments))
        holder: Any = moved
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = holder[path[-1]] + step
        return sum(float(np.sum(r * y)) for r, y in zip(upstream, as_tuple(forward(*moved)[0]), strict=True))

    def slope(path: list[Any], shape: list[int]) -> Any:
        size = int(np.prod(shape))
        units = [H * np.eye(1, size, i).reshape(shape) for i in range(size)]
        return np.array([(loss(path, unit) - loss(path, -unit)) / (2 * H) for unit in units]).reshape(shape)

    return {name: slope(path, shape) for name, path, shape in leaves}
