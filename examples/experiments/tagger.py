"""A small encoder that gives each token a class, made of sub-layers whose norm and dropout can be exchanged.

    before   x ← x + Drop(f(norm(x)))        dropout on the sub-layer's output; the stream is unchanged
    after    x ← Drop(x + f(norm(x)))        dropout on the sum, and so on the stream

f alternates between self-attention and feed-forward. Each backward is its forward read bottom-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npformer as npf
from npformer.backend import Arena
from npformer.layers import (
    INFERENCE,
    BatchNorm,
    CacheStack,
    Context,
    Dropout,
    Embedding,
    FeedForward,
    Layer,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    SinusoidalPositions,
)

Array = Any
Norm = LayerNorm | BatchNorm


class SubLayer(Layer):
    """One sub-layer f with its norm, its dropout and its residual sum."""

    def __init__(self, f: MultiHeadAttention | FeedForward, norm: Norm, dropout: Dropout, *, after: bool) -> None:
        super().__init__(f.backend)
        self.norm, self.f, self.dropout, self.after = norm, f, dropout, after

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (B, T, C) to y (B, T, C)."""
        cache = CacheStack(self)
        f = cache.run(self.f, cache.run(self.norm, x, context=context), context=context)  # f has no dropout of its own
        if self.after:
            return cache.run(self.dropout, x + f, context=context), cache
        return x + cache.run(self.dropout, f, context=context), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C) to dx (B, T, C)."""
        df = self.dropout.backward(dy, cache.pop())
        dx = df if self.after else dy
        return dx + self.norm.backward(self.f.backward(df, cache.pop()), cache.pop())


class Tagger(Layer):
    """Token ids (B, T), 0 is padding, to logits (B, T, V): embedding, positions, 2·num_layers sub-layers, norm, head.

    norm makes a norm; after puts dropout after the residual sum.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        *,
        num_heads: int = 4,
        norm: Callable[[], Norm],
        dropout: float = 0.0,
        after: bool = False,
        backend: npf.Backend,
        seed: int = 0,
    ) -> None:
        super().__init__(backend)
        rng = np.random.default_rng(seed)
        self.embedding = Embedding(vocab_size, d_model, backend=backend, seed=rng)
        self.positions = SinusoidalPositions(backend)
        layers: list[SubLayer] = []
        for _ in range(num_layers):
            attention = MultiHeadAttention(d_model, num_heads, backend=backend, seed=rng)
            feed_forward = FeedForward(d_model, 2 * d_model, backend=backend, seed=rng)
            drops = (Dropout(dropout, backend=backend) for _ in range(2))
            layers += [
                SubLayer(f, norm(), drop, after=after) for f, drop in zip((attention, feed_forward), drops, strict=True)
            ]
        self.layers = tuple(layers)
        self.norm = norm()
        self.head = Linear(d_model, vocab_size, backend=backend, seed=rng)
        self.arena = Arena(self.owned_parameters(), backend)

    def forward(self, tokens: Array, *, key: npf.RandomKey | None = None) -> tuple[Array, CacheStack]:
        """tokens (B, T) to logits (B, T, V); key None: inference."""
        cache, context = CacheStack(self), Context(npf.AttentionMask(tokens != 0), key=key)
        x = cache.run(self.positions, cache.run(self.embedding, tokens))
        for i, layer in enumerate(self.layers):
            x = cache.run(layer, x, context=context.child(f"layers.{i}"))
        x = cache.run(self.norm, x, context=context)
        return cache.run(self.head, x), cache

    def streams(self, tokens: Array, *, key: npf.RandomKey | None = None) -> list[Array]:
        """The residual stream (B, T, C): before the first layer, and after each."""
        x, context = self.positions(self.embedding(tokens)), Context(npf.AttentionMask(tokens != 0), key=key)
        outputs = [x]
        for i, layer in enumerate(self.layers):
            outputs.append(layer(outputs[-1], context=context.child(f"layers.{i}")))
        return outputs

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits (B, T, V)."""
        dx = self.norm.backward(self.head.backward(dlogits, cache.pop()), cache.pop())
        for layer in reversed(self.layers):
            dx = layer.backward(dx, cache.pop())
        self.embedding.backward(self.positions.backward(dx, cache.pop()), cache.pop())
