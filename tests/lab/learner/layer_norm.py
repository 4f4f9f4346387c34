"""A learner's answer: Layer normalisation."""

import numpy as np


def layer_norm_forward(x, gamma, beta, eps=1e-05):
    """x (..., C), gamma and beta (C,). Returns y (..., C) and a cache."""
    centred = x - np.mean(x, axis=-1, keepdims=True)  # 1. (..., C)
    r = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)  # 2. (..., 1)
    x_hat = centred * r  # 3. (..., C)
    y = gamma * x_hat + beta  # 4. (..., C)
    return y, (x_hat, r, gamma)


def layer_norm_backward(dy, cache):
    """dy (..., C). Returns (dx (..., C), dgamma (C,), dbeta (C,)), in this order."""
    x_hat, r, gamma = cache
    width = dy.shape[-1]
    dx_hat = dy * gamma
    shift = dx_hat.sum(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).sum(axis=-1, keepdims=True)
    dx = r / width * (width * dx_hat - shift - x_hat * stretch)
    return dx, (dy * x_hat).reshape(-1, width).sum(axis=0), dy.reshape(-1, width).sum(axis=0)
