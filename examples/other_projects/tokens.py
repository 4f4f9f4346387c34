"""Tokens: gradients of rows that are assigned instead of added, and a loss averaged twice.

A token that occurs twice reads its row twice, so the row gets two gradients. ``dtable[ids] = dy`` keeps only the last
one, and so does ``+=``, because NumPy reads all rows before it writes any. ``np.add.at`` adds both.

Softmax and cross-entropy together, averaged over N tokens: dlogits = dL·(p − onehot)/N. If the loss divides by N and
the layer below "averages over the batch" too, every gradient of the model is N times too small, and Adam hides it.
"""

from __future__ import annotations

import numpy as np

from examples.other_projects.common import Array, Mistake, normal, show, softmax


def embedding_forward(table: Array, ids: Array) -> tuple[Array, tuple[tuple[int, ...], Array]]:
    """table (V, C), ids (B, T) to rows (B, T, C)."""
    return table[ids], (table.shape, ids)


def embedding_backward(dy: Array, cache: tuple[tuple[int, ...], Array]) -> Array:
    """Gradient dtable (V, C)."""
    shape, ids = cache
    dtable = np.zeros(shape, dtype=dy.dtype)
    np.add.at(dtable, ids, dy)
    return dtable


def assigned(dy: Array, cache: tuple[tuple[int, ...], Array]) -> Array:
    """The last gradient of each row wins."""
    shape, ids = cache
    dtable = np.zeros(shape, dtype=dy.dtype)
    dtable[ids] = dy
    return dtable


def loss_forward(logits: Array, targets: Array) -> tuple[Array, tuple[Array, Array]]:
    """logits (N, V), targets (N,) to the mean loss ()."""
    p = softmax(logits)
    rows = np.arange(len(targets))
    return -np.log(p[rows, targets]).mean(), (p, targets)


def loss_backward(dloss: Array, cache: tuple[Array, Array]) -> Array:
    """Gradient dlogits (N, V)."""
    p, targets = cache
    onehot = np.eye(p.shape[1])[targets]
    return dloss * (p - onehot) / len(targets)


def averaged_twice(dloss: Array, cache: tuple[Array, Array]) -> Array:
    """The loss divides by N, and the layer divides again."""
    return loss_backward(dloss, cache) / len(cache[1])


IDS = np.array([[1, 4, 1], [2, 1, 5]])

MISTAKES = (
    Mistake("rows assigned instead of added", embedding_forward, embedding_backward, assigned, (normal(0, 6, 3), IDS)),
    Mistake("a loss divided twice by N", loss_forward, loss_backward, averaged_twice,
            (normal(1, 6, 5), np.array([0, 3, 1, 4, 2, 3]))),
)  # fmt: skip

if __name__ == "__main__":
    show(MISTAKES)
