"""Attention: heads merged in the wrong order, and a mask on the wrong side of the softmax.

Splitting heads is a reshape and a transposition, so merging their gradients is the transposition and then the
reshape. The reshape alone gives the right shape, but assigns the numbers to wrong heads and tokens.

A mask hides scores: p = softmax(s where visible, else −∞). Hidden keys get weight 0, and the others sum to 1.
A backward that recomputes p without the mask, and masks gradients of weights instead, belongs to another
forward, whose weights do not sum to 1.
"""

from __future__ import annotations

import numpy as np

from examples.other_projects.common import Array, Mistake, normal, show, softmax, softmax_backward

HEADS = 2


def split(x: Array) -> Array:
    """(B, T, H·D) to (B, H, T, D)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def merge(x: Array) -> Array:
    """(B, H, T, D) to (B, T, H·D)."""
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def per_head_forward(x: Array, scale: Array) -> tuple[Array, tuple[Array, Array]]:
    """x (B, T, H·D), scale (H,) to heads (B, H, T, D), each with a factor of its own."""
    heads = split(x)
    return heads * scale[:, None, None], (heads, scale)


def per_head_backward(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array]:
    """Gradients (dx (B, T, H·D), dscale (H,))."""
    heads, scale = cache
    return merge(dy * scale[:, None, None]), (dy * heads).sum(axis=(0, 2, 3))


def reshaped(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array]:
    """The heads are merged by a reshape alone."""
    heads, scale = cache
    batch, count, length, width = dy.shape
    dx = (dy * scale[:, None, None]).reshape(batch, length, count * width)
    return dx, (dy * heads).sum(axis=(0, 2, 3))


def attention_forward(q: Array, k: Array, v: Array) -> tuple[Array, tuple[Array, ...]]:
    """q, k, v (B, T, D) to (B, T, D), causal."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    visible = np.tri(q.shape[1], dtype=bool)
    p = softmax(np.where(visible, scores, -1e9))
    return p @ v, (q, k, v, scores, p, visible)


def attention_backward(dy: Array, cache: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv), each (B, T, D)."""
    q, k, v, _, p, _ = cache
    ds = softmax_backward(dy @ v.swapaxes(-1, -2), p) / np.sqrt(q.shape[-1])
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dy


def masked_after_softmax(dy: Array, cache: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """The weights are computed once more, and masked."""
    q, k, v, scores, _, visible = cache
    p = softmax(scores)
    ds = softmax_backward(dy @ v.swapaxes(-1, -2) * visible, p) / np.sqrt(q.shape[-1])
    return ds @ k, ds.swapaxes(-1, -2) @ q, (p * visible).swapaxes(-1, -2) @ dy


MISTAKES = (
    Mistake(
        "a reshape where heads are merged by a transposition", per_head_forward, per_head_backward, reshaped,
        (normal(0, 2, 3, 4), normal(1, HEADS)),
    ),
    Mistake(
        "a mask on weights instead of scores", attention_forward, attention_backward, masked_after_softmax,
        (normal(2, 2, 3, 4), normal(3, 2, 3, 4), normal(4, 2, 3, 4)),
    ),
)  # fmt: skip

if __name__ == "__main__":
    show(MISTAKES)
