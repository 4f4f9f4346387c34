"""The feed-forward layer: two linear maps with an activation between them, applied to each token."""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.functional.feed_forward import expect_activation
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.linear import Linear
from npformer.typing import Array


class FeedForward(Layer):
    """y = Drop(act(x W₁ + b₁)) W₂ + b₂ for x (..., C), with hidden width F; activation "relu" or "gelu"."""

    static = True

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        backend: Backend,
        seed: Seed = 0,
    ) -> None:
        super().__init__(backend)
        expect_activation(activation)
        self.activation = activation
        self.dropout = dropout
        rng = np.random.default_rng(seed)  # one for both: with a seed each they would start from equal numbers
        self.up = Linear(d_model, d_ff, backend=backend, seed=rng)
        self.down = Linear(d_ff, d_model, backend=backend, seed=rng)

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (..., C) to y (..., C)."""
        cache = CacheStack(self)
        up, down = self.up, self.down
        y = cache.keep(
            self.ops.feed_forward.forward(
                x, up.weight.data, up.bias.data, down.weight.data, down.bias.data,
                self.activation, context.draw("dropout", self.dropout),
            )
        )  # fmt: skip
        return y, cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., C) to dx (..., C)."""
        up, down = self.up, self.down
        into = (up.weight.grad, up.bias.grad, down.weight.grad, down.bias.grad)
        return self.ops.feed_forward.backward(dy, cache.pop(), into=into)
