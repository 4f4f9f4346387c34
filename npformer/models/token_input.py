"""The input of every model: x = Drop(embed(tokens) + positions)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.layers import (
    INFERENCE,
    CacheStack,
    Context,
    Dropout,
    Embedding,
    LearnedPositions,
    Linear,
    SinusoidalPositions,
)
from npformer.models.config import ModelConfig
from npformer.typing import Array

#: The layer that adds position encodings to embeddings; None if attention encodes positions, or if nothing does.
Positions: TypeAlias = SinusoidalPositions | LearnedPositions | None


def new_embedding(vocab_size: int, config: ModelConfig, backend: Backend, rng: np.random.Generator) -> Embedding:
    """The table of vocab_size tokens that config describes."""
    std = 0.5 if config.init == "small" else 1.0
    return Embedding(vocab_size, config.d_model, scale=config.scale_embedding, std=std, backend=backend, seed=rng)


def new_output(classes: int, embedding: Embedding, config: ModelConfig, rng: np.random.Generator) -> Linear:
    """The map to logits that config describes; its weight may be the embedding's table, transposed."""
    tied = embedding.weight.transposed("weight") if config.tie_embeddings else None
    return Linear(config.d_model, classes, init=config.init, backend=embedding.backend, seed=rng, weight=tied)


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
    context: Context = INFERENCE,
) -> Array:
    """tokens (B, T) to x (B, T, C)."""
    x = cache.run(embedding, tokens)
    if positions is not None:
        x = cache.run(positions, x)
    return cache.run(dropout, x, context=context)


def embed_backward(embedding: Embedding, positions: Positions, dropout: Dropout, dx: Array, cache: CacheStack) -> None:
    """embed read bottom-up: adds to the gradients of the tables, given dx (B, T, C)."""
    dx = dropout.backward(dx, cache.pop())
    if positions is not None:
        dx = positions.backward(dx, cache.pop())
    embedding.backward(dx, cache.pop())


def position_rows(positions: Positions, max_len: int, config: ModelConfig, backend: Backend) -> Array:
    """For decoding: the encodings of the first max_len positions, (max_len, C).

    Raises ConfigError unless 1 <= max_len, <= max_seq_len for learned positions.
    """
    if max_len < 1:
        raise ConfigError(f"max_len: expected an integer >= 1, got {max_len}")
    if config.positions == "learned" and max_len > config.max_seq_len:
        raise ConfigError(f"max_len: expected at most max_seq_len={config.max_seq_len}, got {max_len}")
    zeros = backend.zeros((1, max_len, config.d_model))
    return (zeros if positions is None else positions(zeros))[0, ...]
