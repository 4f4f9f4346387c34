"""The derivative of a learner's own forward, number by number, for a forward that differs from the exercise's.

By complex step where the forward accepts complex numbers and is right for them (abs and similar functions drop
the imaginary part), else by central differences; a comparison of the two decides.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from values import as_tuple, decode  # type: ignore[import-not-found]

COMPLEX_H, CENTRAL_H = 1e-30, 1e-5


def slopes(forward: Callable[..., Any], case: dict[str, Any], leaves: list[Any]) -> dict[str, Any]:
    """For each leaf (name, path in the arguments, shape): the slope of Σ dy·y along each of its numbers."""
    upstream = as_tuple(decode(case["upstream"]))

    def moved(path: list[Any], step: Any) -> Any:
        arguments = [decode(form) for form in case["arguments"]]
        holder: Any = arguments
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = holder[path[-1]] + step
        return as_tuple(forward(*arguments)[0])

    def central(path: list[Any], unit: Any) -> float:
        above, below = moved(path, CENTRAL_H * unit), moved(path, -CENTRAL_H * unit)
        return float(sum(np.sum(r * (a - b)) for r, a, b in zip(upstream, above, below, strict=True)) / (2 * CENTRAL_H))

    def by_complex(path: list[Any], unit: Any) -> float:
        there = moved(path, 1j * COMPLEX_H * unit)
        return float(sum(np.sum(r * np.imag(y)) for r, y in zip(upstream, there, strict=True)) / COMPLEX_H)

    return {name: _measured(path, shape, central, by_complex) for name, path, shape in leaves}


def _measured(path: list[Any], shape: list[int], central: Callable[..., float], exact: Callable[..., float]) -> Any:
    size = int(np.prod(shape))
    units = [np.eye(1, size, i).reshape(shape) for i in range(size)]
    measured = np.array([central(path, unit) for unit in units])
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("error")  # an imaginary part was dropped, with a warning
        precise = np.array([exact(path, unit) for unit in units])
        if np.allclose(precise, measured, rtol=1e-4, atol=1e-6):
            measured = precise
    return measured.reshape(shape)
