"""y (N,) = the sum over a row of p (log p - log_softmax(x)); each row of p is a distribution."""

import numpy as np

CONSTANT = ("p",)
REGIMES = {"x": "scores"}


def inputs(rng):
    p = np.exp(rng.normal(size=(4, 19)))
    return 2 * rng.normal(size=(4, 19)), p / p.sum(1, keepdims=True)


def forward(x, p):
    z = x - x.real.max(1, keepdims=True)
    log_q = z - np.log(np.exp(z).sum(1, keepdims=True))
    return (p * (np.log(p) - log_q)).sum(1), (log_q, p)


def backward(dy, cache):
    log_q, p = cache
    total = p.sum(1, keepdims=True)  # 1, up to rounding
    return dy[:, None] * (np.exp(log_q) * total - p)
