"""Formulas that are almost right: layer normalisation without one term, GELU with too few digits.

Layer normalisation, with σ² from np.var, r = 1/√(σ² + ε), x̂ = (x − μ)·r and g = γ·dy:

    dx = r·(g − mean g − x̂·mean(g·x̂))

The last term is there because σ depends on x. GELU in its tanh form, with t = tanh(u) and
u = √(2/π)·(x + 0.044715·x³):

    dx = dy·(½(1 + t) + ½x(1 − t²)·√(2/π)·(1 + 3·0.044715·x²))

Six digits of √(2/π) train as well as all of them; still, it is the gradient of another function.
"""

from __future__ import annotations

import numpy as np

from examples.other_projects.common import Array, Mistake, normal, show

EPS = 1e-5
ROOT = np.sqrt(2 / np.pi)


def layer_norm_forward(x: Array, gamma: Array, beta: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """x (B, T, C) normalised over C. np.var has no complex step: the check notices this and uses differences."""
    r = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + EPS)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) * r
    return gamma * x_hat + beta, (x_hat, r, gamma)


def layer_norm_backward(dy: Array, cache: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Gradients (dx (B, T, C), dgamma (C,), dbeta (C,))."""
    x_hat, r, gamma = cache
    g = dy * gamma
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def without_x_hat(dy: Array, cache: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """The standard deviation is treated as a constant."""
    x_hat, r, gamma = cache
    g = dy * gamma
    return r * (g - g.mean(axis=-1, keepdims=True)), (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def gelu_forward(x: Array) -> tuple[Array, Array]:
    """x (...) to y (...)."""
    return 0.5 * x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))), x


def gelu_backward(dy: Array, x: Array) -> Array:
    """Gradient dx (...)."""
    t = np.tanh(ROOT * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * ROOT * (1 + 3 * 0.044715 * x**2))


def with_few_digits(dy: Array, x: Array) -> Array:
    """Constants as printed in papers."""
    t = np.tanh(0.797885 * x + 0.035677 * x**3)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * (0.797885 + 0.107032 * x**2))


MISTAKES = (
    Mistake(
        "layer normalisation without the x-hat term",
        layer_norm_forward,
        layer_norm_backward,
        without_x_hat,
        (normal(0, 2, 3, 4), normal(1, 4), normal(2, 4)),
    ),
    Mistake("GELU with few digits", gelu_forward, gelu_backward, with_few_digits, (normal(3, 3, 4),)),
)

if __name__ == "__main__":
    show(MISTAKES)
