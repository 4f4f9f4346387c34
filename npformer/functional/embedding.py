"""Token embedding: each token id picks its row of a table.

    y_n = scale·table[token_n]                      scale = √C in the Transformer

Backward: row v was used by every token that equals v, so it receives the sum of their gradients,

    dtable_v = scale·Σ_{n: token_n = v} dy_n

Written with the one-hot matrix O (N, V), O_nv = 1 iff token_n = v, the lookup is y = scale·O table
and its gradient the product dtable = scale·Oᵀ dy. The code below computes it so, with N·V·C operations.
The kernels of the backends add up the rows of each token instead, with N·C. Token ids have no gradient.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import as_rows, device_of, expect_integers, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class EmbeddingCache(NamedTuple):
    tokens: Array  # (...)   which rows were used
    num_rows: int  # V: the height of the table
    scale: float


def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, EmbeddingCache]:
    """Look up tokens (...), integers in [0, V), in table (V, C). Returns y (..., C).

    Raises DTypeError if tokens are not integers, ShapeError if table is not a matrix. The range of the
    ids is checked where they enter a model, not here: CuPy would silently wrap them around.
    """
    expect_table(tokens, table)
    xp = namespace(table)
    indices = xp.astype(xp.reshape(tokens, (-1,)), xp.int64, copy=False)  # NumPy 2.0 takes no uint64
    rows = xp.take(table, indices, axis=0)  # (N, C)
    y = xp.reshape(rows, (*tokens.shape, table.shape[1])) * scale
    return y, EmbeddingCache(tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: EmbeddingCache) -> tuple[Array]:
    """Gradient (dtable (V, C),) of embedding_forward."""
    tokens, num_rows, scale = cache
    xp = namespace(dy)
    rows = xp.arange(num_rows, dtype=xp.int64, device=device_of(dy))  # not tokens.dtype: uint8 would wrap at 256
    one_hot = xp.astype(xp.reshape(xp.astype(tokens, xp.int64), (-1, 1)) == rows, dy.dtype)  # (N, V)
    return (scale * xp.matmul(xp.matrix_transpose(one_hot), as_rows(dy)),)


def expect_table(tokens: Array, table: Array) -> None:
    """Raise DTypeError unless tokens are integers, ShapeError unless table is (V, C)."""
    expect_integers("tokens", tokens)
    if table.ndim != 2:
        raise ShapeError(f"table: expected (V, C), got {tuple(table.shape)}")


EMBEDDING = Operation(embedding_forward, embedding_backward, parameters=1, ids="tokens")
