"""A typical mistake: the formula of a wrong answer, and hints for the learner who wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.typing import HostArray, HostArrays

Formula = Callable[[Any], HostArrays]


@dataclass(frozen=True)
class Mistake:
    """One typical mistake. ``wrong`` computes its result from the arguments, outputs and true gradients by name."""

    cause: str  # a few words, for JSON and for the most generous hint
    seen: str  # the visible effect in the numbers, without the answer
    question: str  # hint 1: the idea
    names_it: str  # hint 2: what is missing or wrong
    line: str  # hint 3: almost the line of code
    wrong: Formula

    @property
    def hints(self) -> tuple[str, str, str]:
        return self.question, self.names_it, self.line


def rows(x: HostArray) -> HostArray:
    """x (..., C) as (N, C)."""
    return x.reshape(-1, x.shape[-1])


def total(x: HostArray, axis: int) -> Any:
    """The sum over an axis, kept with length 1."""
    return np.sum(x, axis=axis, keepdims=True)


def mean(x: HostArray) -> HostArray:
    """The mean over the last axis, kept with length 1."""
    return np.asarray(x.mean(axis=-1, keepdims=True))
