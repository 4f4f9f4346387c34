"""How tokens enter a model, any model: x = Drop(embed(tokens) + positions)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from npformer.backend import Backend
from npformer.layers import CacheStack, Dropout, Embedding, LearnedPositions, RandomKey, SinusoidalPositions
from npformer.models.config import ModelConfig
from npformer.typing import Array

#: What is added to embeddings; None: nothing, since attention knows of positions itself, or nobody does.
Positions: TypeAlias = SinusoidalPositions | LearnedPositions | None


def new_embedding(vocab_size: int, config: ModelConfig, backend: Backend, rng: np.random.Generator) -> Embedding:
    """The table of vocab_size tokens that config describes."""
    return Embedding(vocab_size, config.d_model, scale=config.scale_embedding, backend=backend, seed=rng)


def new_positions(config: ModelConfig, backend: Backend, rng: np.random.Generator) -> Positions:
    """The positions that config describes."""
    if config.positions == "sinusoidal":
        return SinusoidalPositions(backend)
    if config.positions == "learned":
        return LearnedPositions(config.max_seq_len, config.d_model, backend=backend, seed=rng)
    return None


def embed(
    cache: CacheStack,
    embedding: Embedding,
    positions: Positions,
    dropout: Dropout,
    tokens: Array,
    key: RandomKey | None,
) -> Array:
    """tokens (B, T) to x (B, T, C)."""
    x = cache.run(embedding, tokens)
    if positions is not None:
        x = cache.run(positions, x)
    return cache.run(dropout, x, key=key)


def embed_backward(embedding: Embedding, positions: Positions, dropout: Dropout, dx: Array, cache: CacheStack) -> None:
    """embed read bottom-up: adds to the gradients of the tables, given dx (B, T, C)."""
    dx = dropout.backward(dx, cache.pop())
    if positions is not None:
        dx = positions.backward(dx, cache.pop())
    embedding.backward(dx, cache.pop())
