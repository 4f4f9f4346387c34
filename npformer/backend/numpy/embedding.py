"""The embedding's gradient by sorting: equal tokens become adjacent, and their rows are summed.

The plain kernel multiplies by a one-hot matrix, N·V·C operations. Here the N rows of dy are sorted
by token and each run of equal tokens is summed once: N·C operations, and the
same order of summation for every vocabulary, so two runs are bit-equal. Only the rows of tokens
that occurred are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.functional.arrays import as_rows
from npformer.functional.embedding import EmbeddingCache, expect_table
from npformer.typing import Array


def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, EmbeddingCache]:
    """As the plain kernel: look up tokens (...), integers in [0, V), in table (V, C). Returns y (..., C)."""
    expect_table(tokens, table)
    y = table[tokens]
    y *= scale
    return y, EmbeddingCache(tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: EmbeddingCache, into: Into = ()) -> Any:
    """As the plain kernel: gradient dtable (V, C), added directly to the rows of into's array if there is one."""
    shape = cache.num_rows, dy.shape[-1]
    expect_gradients(dy, (*cache.tokens.shape, shape[1]), into, shape)
    dtable = into[0] if into else np.zeros(shape, dtype=dy.dtype)
    if dtable is not None:
        _add_rows(dtable, dy, cache)
    return None if into else dtable


def _add_rows(dtable: Array, dy: Array, cache: EmbeddingCache) -> None:
    """Add to each row of dtable (V, C) the sum of its token's rows of dy (..., C)."""
    tokens, _, scale = cache
    tokens = tokens.reshape(-1)
    if tokens.size == 0:
        return
    order = np.argsort(tokens, kind="stable")
    ordered = tokens[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sums = np.add.reduceat(as_rows(dy)[order], starts, axis=0)
    sums *= scale
    dtable[ordered[starts]] += sums
