"""The embedding's gradient by sorting: equal tokens become neighbours, and neighbours are summed.

The plain body multiplies by a one-hot matrix, N·V·C operations. Here the N rows of dy are put in
the order of their tokens and each run of equal tokens is added up once: N·C operations, and the
same order of summation whatever the vocabulary, so two runs are bit-equal.
"""

from __future__ import annotations

import numpy as np

from npformer.functional.arrays import as_rows
from npformer.functional.embedding import EmbeddingCache
from npformer.typing import Array


def embedding_backward(dy: Array, cache: EmbeddingCache) -> tuple[Array]:
    """Gradient (dtable (V, C),) of embedding_forward."""
    tokens, num_rows, scale = cache
    dtable = np.zeros((num_rows, dy.shape[-1]), dtype=dy.dtype)
    tokens = tokens.reshape(-1)
    if tokens.size == 0:
        return (dtable,)
    order = np.argsort(tokens, kind="stable")
    ordered = tokens[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    dtable[ordered[starts]] = np.add.reduceat(as_rows(dy)[order], starts, axis=0) * scale
    return (dtable,)
