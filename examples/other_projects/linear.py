"""A linear map, y = x W + b.

    dx = dy Wᵀ      dW = xᵀ dy      db = Σ_tokens dy

With as many outputs as inputs, dy has the shape of dx, so no error is raised if W is forgotten. A mean where the bias
needs a sum raises no error either: the model trains, but the bias's learning rate shrinks with the batch.
"""

from __future__ import annotations

from examples.other_projects.common import Array, Mistake, normal, show


def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    """x (N, C), weight (C, C), bias (C,) to y (N, C)."""
    return x @ weight + bias, (x, weight)


def linear_backward(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Gradients (dx (N, C), dweight (C, C), dbias (C,))."""
    x, weight = cache
    return dy @ weight.T, x.T @ dy, dy.sum(axis=0)


def without_weight(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """The gradient is passed on unchanged."""
    x, _ = cache
    return dy, x.T @ dy, dy.sum(axis=0)


def with_mean(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """The bias gets the mean over the batch."""
    x, weight = cache
    return dy @ weight.T, x.T @ dy, dy.mean(axis=0)


INPUTS = (normal(0, 5, 4), normal(1, 4, 4), normal(2, 4))

MISTAKES = (
    Mistake("dx without W", linear_forward, linear_backward, without_weight, INPUTS),
    Mistake("a bias averaged where it should be summed", linear_forward, linear_backward, with_mean, INPUTS),
)

if __name__ == "__main__":
    show(MISTAKES)
