"""Token embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, Any]:
    """tokens (...) integers in [0, V), table (V, C). Returns y (..., C) and a cache."""
    y = scale * table[tokens]  # 1. (..., C)
    return y, (tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: Any) -> Array:
    """dy (..., C). Returns dtable (V, C); token ids have no gradient."""
    tokens, num_rows, scale = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    np.add.at(dtable, tokens, scale * dy)
    return dtable
