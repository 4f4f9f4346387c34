"""A case of the catalogue: a target and its inputs; helpers to make cases; sizes and numbers of sample inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.check.check import gradcheck
from npformer.check.report import Report
from npformer.functional import AttentionMask, Draw
from npformer.layers import Layer, RandomKey
from npformer.typing import Values

KEY = RandomKey(seed=7, step=3)
DRAW = Draw(seed=7, step=3, micro=1, site=11, rate=0.3)


@dataclass(frozen=True)
class Case:
    """One gradient check: ``build(backend)`` makes the pair, layer or model; inputs and options are host data."""

    group: str  # "op", "layer" or "model"
    name: str
    build: Callable[[Backend], Any]
    inputs: tuple[Any, ...]
    options: Values = field(default_factory=dict)
    length_one: bool = False  # on purpose
    along_directions: bool = False  # random directions, as for models; everything else is checked element by element
    float64_only: bool = False  # its gradient is a difference of nearly equal numbers, lost in float32

    def check(self, backend: Backend, **more: Any) -> Report:
        """The case's gradient check on a backend; more: options of gradcheck."""
        return gradcheck(
            self.build(backend),
            *self.inputs,
            name=self.name,
            elementwise=not self.along_directions,
            allow_length_one=self.length_one,
            device=backend.device,
            **more,
            **self.options,
        )


def op(op_name: str, variant: str, *inputs: Any, **marks: Any) -> Case:
    """The case of an operation on inputs; marks: length_one, float64_only."""
    name = f"{op_name}: {variant}" if variant else op_name
    return Case("op", name, lambda backend: getattr(backend.ops, op_name), inputs, **marks)


def layer(name: str, make: Callable[..., Layer], arguments: Values, *inputs: Any, **options: Any) -> Case:
    """The case of a layer, made of arguments, on inputs."""
    return Case("layer", name, lambda backend: shaken(make(**arguments, backend=backend)), inputs, options)


def model(name: str, make: Callable[..., Layer], config: Any, *inputs: Any, **options: Any) -> Case:
    """The case of a model, made of config, on token ids."""
    build = lambda backend: shaken(make(config, backend=backend))  # noqa: E731 - bound to config here
    return Case("model", name, build, inputs, options, along_directions=True)


def shaken(layer: Layer) -> Layer:
    """The layer with every parameter and buffer moved at random, in the same way on every backend."""
    rng = np.random.default_rng(2)
    for _, parameter in layer.named_parameters():
        parameter.data[...] = parameter.data + layer.backend.array(0.3 * rng.normal(size=parameter.data.shape))
    for _, buffer in layer.named_buffers():  # variances stay positive
        buffer.data[...] = buffer.data + layer.backend.array(0.3 * np.abs(rng.normal(size=buffer.data.shape)))
    return layer


def padding(keys: int, *lengths: int) -> AttentionMask:
    """A mask with which sequence b sees its first lengths[b] keys."""
    return AttentionMask(np.arange(keys)[None, :] < np.array(lengths)[:, None])


class CaseSizes:
    """At random: small sizes, most from 2 to 6, of which few show what many would, and any option.

    Sizes are attributes, in the letters of the glossary, and I, O and K: the numbers of a token in an input and in an
    output, and the tokens, or half of the entries, of a table of weights. A size is the same at every access.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __getattr__(self, letter: str) -> int:
        if len(letter) > 1:
            raise AttributeError(letter)
        fewest, most = {"B": (2, 3), "H": (2, 3), "C": (3, 7)}.get(letter, (2, 6))  # with 2, a norm leaves only signs
        size = int(self._rng.integers(fewest, most + 1))
        vars(self)[letter] = size  # the same the next time
        return size

    def normal(self, *shape: int) -> Any:
        """Random numbers, no zeros and no ones; half of the arrays have gaps in memory."""
        if self._rng.integers(2):
            return self._rng.normal(size=shape)
        return self._rng.normal(size=(*shape[:-1], 2 * shape[-1]))[..., ::2]

    def of(self, letters: str) -> Any:
        """Random numbers in a shape of sizes: ``of("BTC")`` is (B, T, C)."""
        return self.normal(*(getattr(self, letter) for letter in letters))

    def heads(self, length: int, width: int) -> Any:
        """(B, H, length, width), as attention receives them."""
        return self.normal(self.B, self.H, length, width)

    def ids(self, below: int) -> Any:
        """Tokens (B, T), whole numbers from 0 to below − 1; the first is 1."""
        ids = self._rng.integers(0, below, size=(self.B, self.T))
        ids[0, 0] = 1
        return ids

    def visible(self, *shape: int, least: int = 0) -> Any:
        """Which of an array's numbers count, boolean; at least the first ``least`` along the last axis."""
        visible = self._rng.random(shape) < 0.7
        visible[..., :least] = True
        return visible

    def draw(self) -> Draw | None:
        """Dropout, or none."""
        seed, step = (int(n) for n in self._rng.integers(0, 2**63, size=2))
        return self.choice(None, *(Draw(seed, step, 0, 1, rate) for rate in (0.1, 0.5, 0.9)))  # type: ignore[no-any-return]

    def choice(self, *options: Any) -> Any:
        """One of several options; the first is the usual one."""
        return options[self._rng.integers(len(options))]


class UsualSizes(CaseSizes):
    """Small random sizes, the usual options, and dropout."""

    def draw(self) -> Draw | None:
        return DRAW

    def choice(self, *options: Any) -> Any:
        return options[0]
