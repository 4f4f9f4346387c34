"""The backward in sums instead of means, as dx = r/N (N·g − Σg − x̂·Σg·x̂)."""

import numpy as np


def forward(x, gamma, beta):
    c = x - x.mean(-1, keepdims=True)
    r = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + np.float32(1e-5))
    h = c * r
    return gamma * h + beta, (h, r, gamma)


def backward(dy, cache):
    h, r, gamma = cache
    n, g = h.shape[-1], gamma * dy
    dx = r / n * (n * g - g.sum(-1, keepdims=True) - h * (g * h).sum(-1, keepdims=True))
    return dx, np.einsum("nc,nc->c", dy, h), np.add.reduce(dy, axis=0)
