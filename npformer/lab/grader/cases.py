"""The inputs on which a learner's pair is tested: random, of several shapes, with awkward cases.

All sizes of a case differ where possible, so that a confused axis is noticed. There are separate cases for
length 1, batches of 1, gaps in memory, padding, a fully masked row, repeated tokens and rows longer
than nine, each with a name for the report. exercises.toml has them, in the words of ``_words``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.tree import as_tuple
from npformer.typing import HostArray


class Case(NamedTuple):
    """Arguments of a forward, upstream gradients of its outputs, and the reference's results."""

    label: str
    arguments: tuple[Any, ...]
    upstream: Any  # one array, or a tuple if there are several outputs
    outputs: Any
    gradients: Any
    cache: Any  # the reference forward's
    sizes: Mapping[str, float]  # named numbers that a wrong factor may equal

    @property
    def gaps(self) -> bool:
        """Whether the arrays have gaps between their elements."""
        return "gaps" in self.label


@cache
def cases_of(exercise: Exercise) -> tuple[Case, ...]:
    """All cases of an exercise, with the same numbers at every call."""
    rng = np.random.default_rng(sum(map(ord, exercise.name)))
    return tuple(_case(exercise, rng, *told) for told in exercise.cases)


def _case(exercise: Exercise, rng: np.random.Generator, label: str, given: str, sizes: Mapping[str, float]) -> Case:
    arguments = eval(f"({given},)", _words(rng))
    defaults = [parameter.default for parameter in inspect.signature(exercise.forward).parameters.values()]
    arguments += tuple(defaults[len(arguments) :])
    outputs, kept = exercise.forward(*arguments)
    drawn = tuple(rng.normal(size=np.shape(part)) for part in as_tuple(outputs))
    upstream = drawn if isinstance(outputs, tuple) else np.asarray(drawn[0])
    return Case(label, arguments, upstream, outputs, exercise.backward(upstream, kept), kept, sizes)


def _words(rng: np.random.Generator) -> dict[str, Any]:
    """What the arguments of a case are written with."""

    def normal(*shape: int) -> HostArray:
        return rng.normal(size=shape)

    def keep(*shape: int) -> HostArray:
        """Which entries dropout keeps, boolean; at least one is dropped and one kept."""
        kept = rng.random(shape) < 0.6
        kept.flat[0], kept.flat[-1] = True, False
        return kept

    def lengths(size: int, *visible: int) -> HostArray:
        """(len(visible), size) boolean: row b sees its first visible[b] entries."""
        return np.arange(size) < np.array(visible)[:, None]

    def weights(width: int, hidden: int) -> tuple[HostArray, ...]:
        """Of a feed-forward layer: w1, b1, w2, b2."""
        return normal(width, hidden), normal(hidden), normal(hidden, width), normal(width)

    def attention(width: int) -> dict[str, HostArray]:
        """Weights (C, C) and biases (C,) of multi-head attention."""
        drawn = {f"w{letter}": normal(width, width) / math.sqrt(width) for letter in "qkvo"}
        return drawn | {f"b{letter}": normal(width) for letter in "qkvo"}

    def layer(width: int, *attentions: str) -> dict[str, dict[str, HostArray]]:
        """Parameters of an encoder or decoder layer; F = C + 1."""
        params = {name: attention(width) for name in attentions}
        for i in range(len(attentions) + 1):
            params[f"norm{i + 1}"] = {"gamma": normal(width), "beta": normal(width)}
        return params | {"feed_forward": dict(zip(("w1", "b1", "w2", "b2"), weights(width, width + 1), strict=True))}

    return {"np": np, **locals()}
