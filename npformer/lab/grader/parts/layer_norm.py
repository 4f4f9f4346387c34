"""Layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """x (..., C), gamma and beta (C,). Returns y (..., C) and a cache."""
    centred = x - np.mean(x, axis=-1, keepdims=True)  # 1. (..., C)
    r = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)  # 2. (..., 1)
    x_hat = centred * r  # 3. (..., C)
    y = gamma * x_hat + beta  # 4. (..., C)
    return y, (x_hat, r, gamma)


def layer_norm_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), dgamma (C,), dbeta (C,)), in this order."""
    x_hat, r, gamma = cache
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = np.sum(dy * x_hat, axis=tokens), np.sum(dy, axis=tokens)  # back through 4
    g = dy * gamma  # the gradient of x_hat
    along_x_hat = np.mean(g * x_hat, axis=-1, keepdims=True)  # back through 2 and 3
    along_one = np.mean(g, axis=-1, keepdims=True)  # back through 1
    dx = r * (g - along_one - x_hat * along_x_hat)
    return dx, dgamma, dbeta
