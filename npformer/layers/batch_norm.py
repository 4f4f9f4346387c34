"""The BatchNorm layer, the alternative to LayerNorm: the output of a token depends on all tokens of the batch.

In training it uses the batch's statistics and leaves them in its cache; the forward changes no state. After the
update, the training step reads them with ``statistics_in`` and updates the running statistics with ``remember``.
In inference the layer uses the running statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Backend
from npformer.functional.arrays import namespace
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.layer import Layer
from npformer.layers.parameter import Buffer, Parameter
from npformer.typing import Array


class Kept(NamedTuple):
    """The cache of a forward, its norm, and which of the two forwards it was."""

    norm: BatchNorm
    training: bool
    cache: Any


class Statistics(NamedTuple):
    """The batch statistics of a norm in a training forward."""

    norm: BatchNorm
    mean: Array  # (C,)
    variance: Array  # (C,)
    shares: Array  # (B, T, 1)  1/N for a token that counts, else 0


class BatchNorm(Layer):
    """Normalises x (B, T, C) over its B·T tokens without padding; γ starts at 1, β at 0.

    momentum is the weight of a batch's statistics in the running statistics.
    """

    static = True

    def __init__(self, d_model: int, *, eps: float = 1e-5, momentum: float = 0.1, backend: Backend) -> None:
        super().__init__(backend)
        self.gamma = Parameter("gamma", backend.array(np.ones(d_model)))
        self.beta = Parameter("beta", backend.array(np.zeros(d_model)))
        self.running_mean = Buffer("running_mean", backend.array(np.zeros(d_model)))
        self.running_variance = Buffer("running_variance", backend.array(np.ones(d_model)))
        self.eps = eps
        self.momentum = momentum

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (B, T, C) to y (B, T, C). Tokens that the mask hides do not count; a key means training."""
        training = context.key is not None
        if training:
            y, kept = self.ops.batch_norm.forward(x, *self._affine(), context.mask.key_visible, self.eps)
        else:
            constants = (self.running_mean.data, self.running_variance.data)
            y, kept = self.ops.batch_norm_inference.forward(x, *self._affine(), *constants, self.eps)
        return self.kept((y, Kept(self, training, kept)))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C) to dx (B, T, C)."""
        _, training, kept = cache.pop()
        into = (self.gamma.grad, self.beta.grad)
        if training:
            return self.ops.batch_norm.backward(dy, kept, into=into)
        return self.ops.batch_norm_inference.backward(dy, kept, into=(*into, None, None))  # constants learn nothing

    def remember(self, seen: Statistics) -> None:
        """Update the running statistics with those of a training forward.

        The variance of N tokens is multiplied by N/(N − 1), which makes it an unbiased estimate.
        """
        xp = namespace(seen.mean)
        share = xp.max(seen.shares)  # 1/N, or 0 if no token counted
        unbiased = seen.variance / xp.where(share < 1, 1 - share, xp.ones_like(share))
        for buffer, of_batch in ((self.running_mean, seen.mean), (self.running_variance, unbiased)):
            step = xp.where(share > 0, xp.full_like(share, self.momentum), xp.zeros_like(share))
            buffer.data[...] = buffer.data + step * (of_batch - buffer.data)

    def _affine(self) -> tuple[Array, Array]:
        return self.gamma.data, self.beta.data


def statistics_in(cache: Any) -> Iterator[Statistics]:
    """The statistics of each BatchNorm in a training forward, given the cache of the norm, or of a layer or model."""
    if isinstance(cache, Kept):
        if cache.training:
            seen = cache.cache
            while not hasattr(seen, "shares"):  # unwrap the markers of the fallback and of the profiler
                seen = seen.cache
            yield Statistics(cache.norm, seen.mean, seen.variance, seen.shares)
    elif isinstance(cache, CacheStack | tuple):
        for entry in cache:
            yield from statistics_in(entry)
