"""The input of every model: token ids, checked, and what they become: x = Drop(embed(tokens) + positions).

Ids are checked on the host before they are copied to a device. CuPy silently wraps an index that is out of range
around, so no later code would notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from npformer.backend import Backend
from npformer.errors import ConfigError, DTypeError, ShapeError, TokenError, whole_number
from npformer.layers import (
    INFERENCE,
    CacheStack,
    Context,
    DecodeState,
    Dropout,
    Embedding,
    LearnedPositions,
    Linear,
    SinusoidalPositions,
)
from npformer.models.config import Ids, ModelConfig
from npformer.typing import Array, HostArray


def token_ids(name: str, ids: Any, vocab_size: int, backend: Backend) -> Array:
    """ids (B, T), integers in [0, vocab_size), as int64 on the backend's device.

    ids may be a NumPy array, nested lists, or an array on the device (which is read back to be
    checked; pass NumPy arrays to avoid that synchronisation). Raises ShapeError, DTypeError, TokenError.
    """
    host = checked_ids(name, ids, vocab_size, backend)
    if backend.device.owns(ids) and host.dtype == np.int64:
        # a copy: a cache keeps the ids, and the caller may write the next batch into the same array
        return np.array(ids) if isinstance(ids, np.ndarray) else ids
    return backend.integers(host)  # int64: narrow integers would overflow in comparisons with the vocabulary's size


def checked_batch(wanted: Sequence[Ids], batch: Sequence[Any], backend: Backend) -> list[HostArray]:
    """The arrays of a batch on the host, each checked by checked_ids, if their shapes fit each other.

    Raises ShapeError if they do not, and the errors of checked_ids.
    """
    names = ", ".join(ids.name for ids in wanted)
    if len(batch) != len(wanted):
        raise ShapeError(f"{names}: expected {len(wanted)} arrays, the targets last, got {len(batch)}")
    checked = [
        checked_ids(ids.name, x, ids.below, backend, per_row=len(ids.shape) == 1)
        for ids, x in zip(wanted, batch, strict=True)
    ]
    lengths: dict[str, int] = {}
    for ids, host in zip(wanted, checked, strict=True):
        if any(
            lengths.setdefault(letter, length) != length for letter, length in zip(ids.shape, host.shape, strict=True)
        ):
            shapes = ", ".join(f"({', '.join(ids.shape)}{',' * (len(ids.shape) == 1)})" for ids in wanted)
            raise ShapeError(f"{names}: expected {shapes}, got " + ", ".join(str(tuple(x.shape)) for x in checked))
    return checked


def checked_ids(name: str, ids: Any, vocab_size: int, backend: Backend, *, per_row: bool = False) -> HostArray:
    """The checks of token_ids without the copy to the device. per_row: ids are (B,), classes of rows."""
    host = _on_host(name, ids, backend)
    if per_row and (host.ndim != 1 or host.size == 0):
        raise ShapeError(f"{name}: expected (B,), a class for each row, got {tuple(host.shape)}")
    if not per_row and host.ndim != 2:
        raise ShapeError(f"{name}: expected (B, T), a batch of token ids, got {tuple(host.shape)}")
    if host.size == 0:
        raise ShapeError(f"{name}: expected at least one sequence of at least one token, got {tuple(host.shape)}")
    if host.dtype.kind not in "iu":
        raise DTypeError(f"{name}: expected integers (token ids), got {host.dtype}; convert with astype first")
    if host.min() < 0 or host.max() >= vocab_size:
        outside = np.argwhere((host < 0) | (host >= vocab_size))
        place, kind = tuple(outside[0].tolist()), "class" if per_row else "token id"
        raise TokenError(
            f"{name}[{', '.join(map(str, place))}]: expected a {kind} with 0 <= id < {vocab_size}, got {host[place]}"
            f" ({len(outside)} such); is the vocabulary the one the model was made for?"
        )
    return host


def decode_step(model: Any, embedding: Embedding, vocab_size: int, tokens: Any, state: DecodeState) -> Array:
    """The step of a model with a decoder and a generator: tokens (B,) to logits (B, V), or (B, n) to (B, n, V)."""
    host = _on_host("tokens", tokens, model.backend)
    several = host.ndim != 1
    ids = token_ids("tokens", host if several else host[:, None], vocab_size, model.backend)  # (B, n)
    mask = state.admit(ids != model.config.pad_id)
    x = embedding(ids) + state.position_encodings(ids.shape[1])
    logits = model.generator(model.decoder.step(x, state.layers, Context(mask, state.memory_mask)))  # (B, n, V)
    state.length += ids.shape[1]
    return logits if several else logits[:, 0, :]


def _on_host(name: str, ids: Any, backend: Backend) -> HostArray:
    if backend.device.owns(ids):
        return backend.host(ids)
    try:
        return np.asarray(ids)
    except ValueError as error:
        raise ShapeError(f"{name}: expected (B, T), rows of equal length, got rows that differ; pad them") from error
    except Exception as error:
        raise DTypeError(
            f"{name}: expected token ids in a NumPy array or on the model's device, got {type(ids)}"
        ) from error


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
    whole_number("max_len", max_len, at_least=1)
    if config.positions == "learned" and max_len > config.max_seq_len:
        raise ConfigError(f"max_len: expected at most max_seq_len={config.max_seq_len}, got {max_len}")
    zeros = backend.zeros((1, max_len, config.d_model))
    return (zeros if positions is None else positions(zeros))[0, ...]
