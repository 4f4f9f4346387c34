"""The mean cross-entropy over the rows whose class is not -1; 0 if there are none."""

import numpy as np

REGIMES = {"x": "scores", "classes": "ids"}


def inputs(rng):
    classes = rng.integers(0, 9, size=7)
    classes[2] = -1
    return 2 * rng.normal(size=(7, 9)), classes


def forward(x, classes):
    z = x - x.real.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1, keepdims=True)
    hot = np.eye(x.shape[-1])[classes] * (classes >= 0)[:, None]
    count = max(np.sum(classes >= 0), 1)
    losses = ((np.log(s) - z) * hot).sum(-1)
    return losses.sum() / count, (e / s, hot, classes, count)


def backward(dy, cache):
    p, hot, classes, count = cache
    kept = (classes >= 0)[:, None]
    return dy * (kept * p - hot) / count
