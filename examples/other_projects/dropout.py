"""Dropout: the softmax that is given dropped weights, and one mask that stands in for two.

Dropout comes after the softmax, w̃ = w·m, so each backward needs the numbers that its own forward saw: dv = w̃ᵀ dy needs
the dropped weights, and ds = w·(dw − Σ dw·w), with dw = (dy vᵀ)·m, those before. Two uses of dropout draw two masks. If
the layer keeps "the mask" in itself, the second call overwrites what the first one's backward still needs.
"""

from __future__ import annotations

from examples.other_projects.common import Array, Mistake, normal, show, softmax, softmax_backward

KEEP = 0.7
#: Masks are given, as in every check of something random: 1/0.7 where a number is kept, else 0.
WEIGHTS_MASK = (normal(10, 2, 3, 3) > -0.5) / KEEP
FIRST, SECOND = (normal(11, 5, 4) > -0.5) / KEEP, (normal(12, 5, 4) > -0.5) / KEEP


def weighted_forward(scores: Array, v: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """scores (B, T, T), v (B, T, D) to (B, T, D), the weights dropped."""
    w = softmax(scores)
    dropped = w * WEIGHTS_MASK
    return dropped @ v, (w, dropped, v)


def weighted_backward(dy: Array, cache: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """Gradients (dscores (B, T, T), dv (B, T, D))."""
    w, dropped, v = cache
    return softmax_backward(dy @ v.swapaxes(-1, -2) * WEIGHTS_MASK, w), dropped.swapaxes(-1, -2) @ dy


def by_dropped_weights(dy: Array, cache: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """The softmax gets the weights that came out of dropout."""
    _, dropped, v = cache
    return softmax_backward(dy @ v.swapaxes(-1, -2) * WEIGHTS_MASK, dropped), dropped.swapaxes(-1, -2) @ dy


def twice_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    """x (N, C), weight (C, C) to y (N, C): dropout, a product, dropout."""
    h = x * FIRST
    return (h @ weight) * SECOND, (h, weight)


def twice_backward(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array]:
    """Gradients (dx (N, C), dweight (C, C))."""
    h, weight = cache
    dy = dy * SECOND
    return (dy @ weight.T) * FIRST, h.T @ dy


def by_one_mask(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array]:
    """The last mask is used for both."""
    h, weight = cache
    dy = dy * SECOND
    return (dy @ weight.T) * SECOND, h.T @ dy


MISTAKES = (
    Mistake(
        "dropped weights where the softmax needs its own", weighted_forward, weighted_backward, by_dropped_weights,
        (normal(0, 2, 3, 3), normal(1, 2, 3, 4)),
    ),
    Mistake("one mask used twice", twice_forward, twice_backward, by_one_mask, (normal(2, 5, 4), normal(3, 4, 4))),
)  # fmt: skip

if __name__ == "__main__":
    show(MISTAKES)
