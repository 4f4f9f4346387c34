"""The mean cross-entropy of scores and classes."""

import numpy as np

REGIMES = {"x": "scores", "classes": "ids"}
SIZES = ()


def inputs(rng):
    return 2 * rng.normal(size=(6, 11)), rng.integers(0, 11, size=6)


def forward(x, classes):
    z = x - x.real.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1, keepdims=True)
    hot = np.eye(x.shape[-1])[classes]
    return ((np.log(s) - z) * hot).sum() / len(x), (e / s, hot)


def backward(dy, cache):
    p, hot = cache
    return dy * (p - hot) / len(p)
