"""The source of sizes, numbers and options for an operation's sample inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.functional import Draw
from npformer.proof.case import DRAW


class Sizes:
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


class UsualSizes(Sizes):
    """Small random sizes, the usual options, and dropout."""

    def draw(self) -> Draw | None:
        return DRAW

    def choice(self, *options: Any) -> Any:
        return options[0]
