"""Every operation at the shapes that it has in a model: its inputs, and how large what comes out is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.functional import AttentionMask, Draw, split_heads
from npformer.models.presets import Preset
from npformer.typing import HostArray

RATE = 0.1  # of dropout, wherever there is any
EPS = 1e-5
BUCKETS, FARTHEST = 32, 128  # of relative positions, as T5 has them
KERNEL = 3  # tokens that a convolution looks at
DRAW = Draw(seed=0, step=1, micro=0, site=1, rate=RATE)


class Case(NamedTuple):
    """One call of an operation's forward: ``forward(*arrays, *options)``."""

    arrays: tuple[HostArray, ...]
    dy: Any  # what backward is given: like y, an array, a tuple of them, or 1.0 for a loss
    options: tuple[Any, ...] = ()
    parameters: int = 0  # how many of the arrays, the last ones, are parameters


def window(size: Preset) -> int:
    """How near keys are to their queries in local attention: an eighth of the length."""
    return max(1, size.length // 8)


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

    def rotary(self) -> Case:
        x = self._heads(start=0, of=self._x(3 * self.size.d_model))
        return Case((x,), self._heads(start=0, of=self._x()))

    def relative_bias(self) -> Case:
        length, heads = self.size.length, self.size.num_heads
        options = (length, length, 0, False, FARTHEST)
        return Case((self._array(BUCKETS, heads),), self._array(heads, length, length), options, 1)

    def layer_norm(self) -> Case:
        return Case((self._x(), *self._norm()), self._x(), (EPS,), 2)

    def batch_norm(self) -> Case:
        return Case((self._x(), *self._norm()), self._x(), (None, EPS), 2)

    def batch_norm_inference(self) -> Case:
        mean, spread = self._norm()
        return Case((self._x(), *self._norm(), mean, 1 + spread * spread), self._x(), (EPS,), 4)

    def attention(self) -> Case:
        return Case(self._qkv(), self._dout(), (self._mask(causal=True), DRAW))

    def biased_attention(self) -> Case:
        bias = self._array(self.size.num_heads, self.size.length, self.size.length)
        return Case((*self._qkv(), bias), self._dout(), (self._mask(causal=True), DRAW))

    def local_attention(self) -> Case:
        return Case(self._qkv(), self._dout(), (self._mask(causal=True, window=window(self.size)), DRAW))

    def linear_attention(self) -> Case:
        return Case(self._qkv(), self._dout(), (self._mask(),))

    def _qkv(self) -> tuple[HostArray, ...]:
        """q, k and v (B, H, T, D), as one product made them."""
        c = self.size.d_model
        qkv = self._x(3 * c)
        return tuple(self._heads(start=start, of=qkv) for start in (0, c, 2 * c))

    def _dout(self) -> HostArray:
        return self._heads(start=0, of=self._x())

    def _mask(self, **options: Any) -> AttentionMask:
        return AttentionMask(key_visible=np.ones(self.tokens, dtype=bool), **options)

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

    def gru(self) -> Case:
        c = self.size.d_model
        scale = np.float32(c**-0.5)
        weights = (scale * self._array(c, 3 * c), self._array(3 * c), scale * self._array(c, 3 * c), self._array(3 * c))
        return Case((self._x(), self._array(self.size.batch, c), *weights), self._x(), (), 4)

    def conv1d(self) -> Case:
        c = self.size.d_model
        return Case((self._x(), self._array(KERNEL, c, c), self._array(c)), self._x(), (), 2)
