"""Every operation at the shapes that it has in a model: its inputs, and how large what comes out is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.functional import AttentionMask, Draw, split_heads
from npformer.models.presets import Preset
from npformer.typing import HostArray

RATE = 0.1  # of dropout, wherever there is any
EPS = 1e-5
DRAW = Draw(seed=0, step=1, micro=0, site=1, rate=RATE)


class Case(NamedTuple):
    """One call of an operation's forward: ``forward(*arrays, *options)``."""

    arrays: tuple[HostArray, ...]
    dy: Any  # what backward is given: like y, an array, a tuple of them, or 1.0 for a loss
    options: tuple[Any, ...] = ()
    parameters: int = 0  # how many of the arrays, the last ones, are parameters


def case(op: str, size: Preset) -> Case:
    """The call of the operation of that name (a field of npformer.backend.Ops) in a model of that size.

    Dropout 0.1; sequences without padding, with their masks.
    """
    return getattr(_Cases(size), op)()  # type: ignore[no-any-return]


class _Cases:
    """One method for each operation. Numbers are random, so that no branch and no value is favoured."""

    def __init__(self, size: Preset) -> None:
        self.size = size
        self.rng = np.random.default_rng(0)
        self.tokens = (size.batch, size.length)  # (B, T)

    def _x(self, *width: int) -> HostArray:
        """(B, T, width), the width of the model if none is given."""
        return self._array(*self.tokens, *(width or (self.size.d_model,)))

    def _array(self, *shape: int) -> HostArray:
        return self.rng.standard_normal(shape, dtype=np.float32)

    def _norm(self) -> tuple[HostArray, HostArray]:
        """Gain and bias."""
        return self._array(self.size.d_model), self._array(self.size.d_model)

    def _heads(self, *, start: int, of: HostArray) -> HostArray:
        """(B, H, T, D): columns of what a product made, as attention gets them."""
        part: HostArray = split_heads(of[..., start : start + self.size.d_model], self.size.num_heads)
        return part

    def linear(self) -> Case:
        wide = 3 * self.size.d_model
        return Case((self._x(), self._array(self.size.d_model, wide), self._array(wide)), self._x(wide), (), 2)

    def relu(self) -> Case:
        return Case((self._x(self.size.d_ff),), self._x(self.size.d_ff))

    gelu = relu

    def softmax(self) -> Case:
        shape = (self.size.batch, self.size.num_heads, self.size.length, self.size.length)
        return Case((self._array(*shape),), self._array(*shape))

    def dropout(self) -> Case:
        return Case((self._x(self.size.d_ff),), self._x(self.size.d_ff), (DRAW,))

    def embedding(self) -> Case:
        tokens, scale = self.rng.integers(1, self.size.vocab_size, self.tokens), self.size.d_model**0.5
        return Case((tokens, self._array(self.size.vocab_size, self.size.d_model)), self._x(), (scale,), 1)

    def sinusoidal_positions(self) -> Case:
        return Case((self._x(),), self._x())

    def learned_positions(self) -> Case:
        return Case((self._x(), self._array(self.size.length, self.size.d_model)), self._x(), (), 1)

    def layer_norm(self) -> Case:
        return Case((self._x(), *self._norm()), self._x(), (EPS,), 2)

    def attention(self) -> Case:
        c = self.size.d_model
        qkv, dy = self._x(3 * c), self._heads(start=0, of=self._x())
        q, k, v = (self._heads(start=start, of=qkv) for start in (0, c, 2 * c))
        mask = AttentionMask(key_visible=np.ones(self.tokens, dtype=bool), causal=True)
        return Case((q, k, v), dy, (mask, DRAW))

    def residual(self) -> Case:
        return Case((self._x(), self._x()), self._x(), (DRAW,))

    def post_norm(self) -> Case:
        return Case((self._x(), self._x(), *self._norm()), self._x(), (EPS, DRAW), 2)

    def add_norm(self) -> Case:
        return Case((self._x(), self._x(), *self._norm()), (self._x(), self._x()), (EPS, DRAW), 2)

    def feed_forward(self) -> Case:
        c, f = self.size.d_model, self.size.d_ff
        up, down = (self._array(c, f), self._array(f)), (self._array(f, c), self._array(c))
        return Case((self._x(), *up, *down), self._x(), ("relu", DRAW), 4)

    def cross_entropy(self) -> Case:
        targets = self.rng.integers(1, self.size.vocab_size, self.tokens)
        return Case((self._x(self.size.vocab_size), targets), 1.0, (0, 0.0))
