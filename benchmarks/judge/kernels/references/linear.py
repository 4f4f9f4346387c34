"""A product with weights, and a bias."""

REGIMES = {"x": ("times 10", "tiny", "zeros")}


def inputs(rng):
    return rng.normal(size=(9, 12)), rng.normal(size=(12, 10)) / 12**0.5, 0.5 * rng.normal(size=10)


def forward(x, w, b):
    return x @ w + b, (x, w)


def backward(dy, cache):
    x, w = cache
    return dy @ w.T, x.T @ dy, dy.sum(0)
