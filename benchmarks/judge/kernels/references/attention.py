"""Attention of one head with a mask; True is visible."""

import numpy as np

REGIMES = {"q": ("times 3", "tiny"), "k": ("times 3", "tiny")}


def inputs(rng):
    return *rng.normal(size=(3, 7, 8)), np.tril(np.ones((7, 7), dtype=bool))


def forward(q, k, v, visible):
    s = np.where(visible, q @ k.T / q.shape[-1] ** 0.5, -1e9)
    e = np.exp(s - s.real.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p @ v, (q, k, v, p)


def backward(dy, cache):
    q, k, v, p = cache
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / q.shape[-1] ** 0.5
    return ds @ k, ds.T @ q, p.T @ dy
