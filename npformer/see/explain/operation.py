"""An operation explained: its formula, its derivation, and each line of its pair with the numbers it made.

The sample input is small and its numbers have one decimal, so that a reader can check each line by hand.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from npformer.backend import PLAIN
from npformer.check.cases import op_samples
from npformer.check.cases.case import Sizes
from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple, like
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS, Draw
from npformer.functional.derivation import split_docstring
from npformer.see.explain.reading import OperationStory, Reader
from npformer.see.explain.spots import Run
from npformer.see.record.jacobian import gradient_names
from npformer.see.record.lines import tracing_lines

#: The sizes of a sample, by the letters of the glossary; I, O and K as in ``op_samples``.
SIZES = {"B": 1, "T": 3, "S": 3, "C": 3, "H": 1, "D": 2, "F": 3, "V": 4, "I": 3, "O": 2, "K": 4}


class _Readable(Sizes):
    """Small sizes, the usual options, no dropout, and numbers with one decimal."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(4))
        vars(self).update(SIZES)

    def normal(self, *shape: int) -> Any:
        return _one_decimal(self._rng, shape)

    def visible(self, *shape: int, least: int = 0) -> Any:
        """All but the last."""
        mask = np.ones(shape, dtype=bool)
        mask[..., -1] = False
        return mask

    def draw(self) -> Draw | None:
        return None

    def choice(self, *options: Any) -> Any:
        return options[0]


def sample_inputs(name: str) -> tuple[Any, ...]:
    """The sample's inputs of an operation."""
    inputs: tuple[Any, ...] = getattr(op_samples, name)(_Readable())
    return inputs


def explained_operation(name: str) -> OperationStory:
    """Explain the operation with this name. Raises ConfigError for another name."""
    if name not in OPERATIONS:
        raise ConfigError(f"explain: expected the name of an operation, one of {', '.join(OPERATIONS)}, got {name!r}")
    row, pair, inputs = OPERATIONS[name], getattr(PLAIN, name), sample_inputs(name)
    with tracing_lines() as tracer:
        y, cache = row.forward(*inputs)
        rng = np.random.default_rng(5)
        ones = [np.asarray(_one_decimal(rng, np.shape(part))) for part in as_tuple(y)]
        dy = like(y, ones) if np.ndim(as_tuple(y)[0]) else 1.0
        gradients = row.backward(dy, cache)
        forward, backward = tracer.frames
    title, formula, derivation, source = split_docstring(import_module(row.forward.__module__).__doc__ or "")
    names = gradient_names(pair, len(gradients))
    return OperationStory(
        name,
        title,
        formula,
        derivation,
        source,
        dict(zip(row.inputs, inputs, strict=False)),
        next(iter(backward.arguments)),
        dy,
        Reader(Run(forward), ()).function(forward),
        Reader(Run(backward), [f"d{each}" for each in names]).function(backward),
        {f"d{each}": gradient for each, gradient in zip(names, gradients, strict=True)},
        gradcheck(pair, *inputs, name=name, allow_length_one=True),
    )


def _one_decimal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers with one decimal, none of them 0."""
    numbers = np.round(rng.normal(size=shape), 1)
    return np.where(numbers == 0, 0.5, numbers)
