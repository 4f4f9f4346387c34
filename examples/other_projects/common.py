"""A pair with a right and a wrong backward, and the gradient check's report on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import npformer as npf

Array = Any
Function = Callable[..., Any]


class Mistake(NamedTuple):
    """One forward with two backwards, and float64 inputs to check them at."""

    what: str
    forward: Function
    right: Function
    wrong: Function
    inputs: tuple[Any, ...]


def normal(seed: int, *shape: int) -> Array:
    """Standard normal random numbers: zeros and ones would hide mistakes."""
    return np.random.default_rng(seed).normal(size=shape)


def softmax(x: Array) -> Array:
    """x (..., S) to weights (..., S) that sum to 1."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(dw: Array, w: Array) -> Array:
    """Gradient (..., S) of the scores, of weights w (..., S)."""
    return w * (dw - (dw * w).sum(axis=-1, keepdims=True))


def show(mistakes: tuple[Mistake, ...]) -> None:
    """Print both tables of each mistake."""
    for mistake in mistakes:
        print(f"{mistake.what}\n")
        for label, backward in (("right", mistake.right), ("wrong", mistake.wrong)):
            print(f"{label}:\n{npf.gradcheck((mistake.forward, backward), *mistake.inputs)}\n")
