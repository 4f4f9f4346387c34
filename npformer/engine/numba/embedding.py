"""Embedding: rows are scaled in one pass, and gradients are added to the table's gradient token by token."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import OutRows, Rows, Whole
from npformer.engine.numba.compiling import kernel
from npformer.engine.numba.recording import Traced
from npformer.engine.numba.rows import as_rows, contiguous, contiguous_rows
from npformer.functional.embedding import EmbeddingCache, expect_table
from npformer.typing import Array


def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, EmbeddingCache]:
    expect_table(tokens, table)
    y = empty((*tokens.shape, table.shape[1]), table.dtype)
    ids = _ids(tokens)
    if type(ids) is not Traced and ids.size and not (-table.shape[0] <= ids.min() and ids.max() < table.shape[0]):
        table[ids]  # raises IndexError; a kernel would read, and later write, memory that is not the table's
    take_rows(contiguous(table), ids, scale, as_rows(y))
    return y, EmbeddingCache(tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: EmbeddingCache, into: Into = ()) -> Any:
    tokens, num_rows, scale = cache
    shape = num_rows, dy.shape[-1]
    expect_gradients(dy, (*tokens.shape, shape[1]), into, shape)
    place = into[0] if into else None
    if into and place is None:  # frozen
        return None
    direct = place is not None and place.flags.c_contiguous
    dtable = place if direct else np.zeros(shape, dtype=dy.dtype)
    add_rows(contiguous_rows(dy), _ids(tokens), scale, dtable)
    return None if direct else accumulate((dtable,), into)


def _ids(tokens: Array) -> Array:
    """Token ids (N,) as contiguous int64."""
    return contiguous(tokens).reshape(tokens.size).astype(np.int64, copy=False)


@kernel(calls="embedding.forward")
def take_rows(table: Rows, tokens: Whole, scale: float, y: OutRows):
    """y = scale·table[token]."""
    factor = table.dtype.type(scale)
    for n in range(y.shape[0]):
        row = table[tokens[n]]
        for j in range(y.shape[1]):
            y[n, j] = factor * row[j]


@kernel(calls="embedding.backward")
def add_rows(dy: Rows, tokens: Whole, scale: float, dtable: OutRows):
    """dtable[token] += scale·dy, token by token, always in the same order."""
    factor = dy.dtype.type(scale)
    for n in range(dy.shape[0]):
        row = dtable[tokens[n]]
        for j in range(dy.shape[1]):
            row[j] += factor * dy[n, j]
