"""The dropout layer. It has a rate and no parameters."""

from __future__ import annotations

from npformer.backend import Backend
from npformer.functional.dropout import dropout_threshold
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.layer import Layer
from npformer.typing import Array


class Dropout(Layer):
    """Drops entries of x with probability rate while training. Raises ConfigError unless 0 ≤ rate < 1."""

    static = True

    def __init__(self, rate: float, *, backend: Backend) -> None:
        super().__init__(backend)
        dropout_threshold(rate)
        self.rate = rate

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (...) to y (...); without a key in the context, which is inference, y = x."""
        draw = None if context.key is None or self.rate == 0 else context.key.draw(self.rate)
        return self.kept(self.ops.dropout.forward(x, draw))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (...) to dx (...)."""
        return self.ops.dropout.backward(dy, cache.pop())
