"""Embedding rows scaled in one pass; their gradients are added straight to the table's, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npformer.backend.numba.compiling import kernel
from npformer.backend.numba.rows import contiguous, contiguous_rows
from npformer.backend.ops import Pair
from npformer.backend.workspace import empty
from npformer.functional.arrays import as_rows
from npformer.functional.embedding import EmbeddingCache, expect_table
from npformer.typing import Array


def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, EmbeddingCache]:
    expect_table(tokens, table)
    y = empty((*tokens.shape, table.shape[1]), table.dtype)
    np.take(table, tokens.reshape(-1), axis=0, out=as_rows(y), mode="clip")  # ids are checked where they enter a model
    if scale != 1:
        y *= table.dtype.type(scale)
    return y, EmbeddingCache(tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: EmbeddingCache, into: Sequence[Array | None] = ()) -> Any:
    tokens, num_rows, scale = cache
    if into and into[0] is None:
        return None
    direct = into and into[0] is not None and into[0].flags.c_contiguous
    dtable = into[0] if direct else np.zeros((num_rows, dy.shape[-1]), dtype=dy.dtype)
    add_rows(contiguous_rows(dy), contiguous(tokens).reshape(-1).astype(np.int64, copy=False), scale, dtable)
    if not into:
        return dtable
    if not direct:
        into[0][...] += dtable  # type: ignore[index]
    return None


@kernel("XkfY")
def add_rows(dy, tokens, scale, dtable):  # type: ignore[no-untyped-def]
    """dtable[token] += scale·dy, one token after the other: always in the same order."""
    factor = dy.dtype.type(scale)
    for n in range(dy.shape[0]):
        row = dtable[tokens[n]]
        for j in range(dy.shape[1]):
            row[j] += factor * dy[n, j]


EMBEDDING = Pair(embedding_forward, embedding_backward)
