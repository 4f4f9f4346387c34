"""Bugs that show at exact zeros, ties, nearly constant rows and tiny numbers."""

import numpy as np

from benchmarks.regimes.bug import Bug, normal


# Rows divided by their norm, or by ε if that is larger.
def normalize_forward(x, eps=1e-3):
    norm = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    return np.where(np.real(norm) > eps, x / np.where(norm == 0, 1, norm), x / eps), (x, norm, eps)


def normalize_backward(dy, cache):
    x, norm, eps = cache
    unit = x / np.where(norm == 0, 1, norm)
    inside = (dy - unit * (dy * unit).sum(axis=-1, keepdims=True)) / norm
    return np.where(norm > eps, inside, dy / eps)


# Rows minus their mean, divided by standard deviation plus ε.
def standardize_forward(x, eps=1e-2):
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt((centred * centred).mean(axis=-1, keepdims=True))
    return centred / (std + eps), (centred, std, eps)


def standardize_backward(dy, cache):
    centred, std, eps = cache
    unit = centred / np.where(std == 0, 1, std)
    along = (dy * centred).mean(axis=-1, keepdims=True) / (std + eps)
    dc = (dy - unit * along) / (std + eps)
    return dc - dc.mean(axis=-1, keepdims=True)


# Products: of all of a row, and of all up to each place.
def prod_forward(x):
    return x.prod(axis=-1), x


def prod_backward(dy, x):
    n = x.shape[-1]
    without = np.where(np.eye(n, dtype=bool), 1, x[..., None, :]).prod(axis=-1)
    return dy[..., None] * without


def cumprod_forward(x):
    return np.cumprod(x, axis=-1), x


def cumprod_backward(dy, x):
    dx, carried = np.zeros_like(x), np.zeros(x.shape[:-1])
    before = np.cumprod(np.concatenate([np.ones((*x.shape[:-1], 1)), x[..., :-1]], axis=-1), axis=-1)
    for i in reversed(range(x.shape[-1])):
        carried = dy[..., i] + carried
        dx[..., i] = before[..., i] * carried
        carried = x[..., i] * carried
    return dx


# The same product, by another backward.
def cumprod_scan_forward(x):
    y = np.cumprod(x, axis=-1)
    return y, (x, y)


def cumprod_scan_backward(dy, cache):
    x, y = cache
    if not (x == 0).any():
        return (dy * y)[..., ::-1].cumsum(axis=-1)[..., ::-1] / x
    return cumprod_backward(dy, x)


# sin(x)/x.
def sinc_forward(x):
    safe = np.where(x == 0, 1, x)
    return np.where(np.abs(x) < 1e-3, 1 - x * x / 6, np.sin(safe) / safe), x


def sinc_backward(dy, x):
    safe = np.where(x == 0, 1, x)
    exact = np.cos(safe) / safe - np.sin(safe) / safe**2
    return dy * np.where(np.abs(x) < 1e-3, -x / 3, exact)


# The largest of a row.
def max_forward(x):
    return x.max(axis=-1), x


def max_backward(dy, x):
    dx = np.zeros_like(x)
    np.put_along_axis(dx, x.argmax(axis=-1)[:, None], dy[:, None], axis=-1)
    return dx


# The same, over rows that are padded to whole blocks of 4.
def padded_max_backward(dy, x):
    n = x.shape[-1]
    padded = np.pad(x, ((0, 0), (0, -n % 4)), constant_values=-np.inf)
    hot = np.arange(padded.shape[-1]) == padded.argmax(axis=-1)[:, None]
    return (dy[:, None] * hot)[:, :n]


# A softmax that keeps the mass of all but the largest.
def softmax_forward(x):
    e = np.exp(x - np.real(x).max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, (x, p)


def softmax_backward(dy, cache):
    x, p = cache
    top = np.arange(x.shape[-1]) == x.argmax(axis=-1)[:, None]
    rest = np.where(top, 0, p)
    p = np.where(top, 1 - rest.sum(axis=-1, keepdims=True), rest)
    return p * (dy - (p * dy).sum(axis=-1, keepdims=True))


# RMSNorm.
def rms_forward(x, gamma, eps=1e-12):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return gamma * x * r, (x, r, gamma)


def rms_backward(dy, cache):
    x, r, gamma = cache
    g = dy * gamma
    dx = r * g - r**3 * x * (g * x).mean(axis=-1, keepdims=True)
    return dx, (dy * x * r).sum(axis=0)


def mostly_positive(seed, *shape):
    """Normal numbers, the first of each row above 0."""
    x = normal(seed, *shape)
    x[..., 0] = np.abs(x[..., 0]) + 0.1
    return x


BUGS = (
    Bug("normalise: a row of zeros is divided by its norm", normalize_forward, normalize_backward,
        (normal(41, 4, 5),), "np.where(norm > eps, inside, dy / eps)",
        "inside * (norm > eps) + dy / eps * (norm <= eps)",
        "a row of zeros", "google-deepmind/optax#946"),
    Bug("standardise: ε guards the forward alone", standardize_forward, standardize_backward, (normal(42, 4, 5),),
        "centred / np.where(std == 0, 1, std)", "centred / std",
        "a constant row", "FluxML/Flux.jl#2096"),
    Bug("prod: the product divided by each entry", prod_forward, prod_backward, (normal(43, 4, 5),),
        "dy[..., None] * without", "dy[..., None] * x.prod(axis=-1, keepdims=True) / x",
        "exact zeros", "FluxML/Flux.jl#524"),
    Bug("cumprod: a sum divided by x", cumprod_scan_forward, cumprod_scan_backward, (normal(44, 4, 5),),
        "if not (x == 0).any():", "if True:",
        "exact zeros", "tensorflow/tensorflow#3862"),
    Bug("cumprod: 0 where x is 0", cumprod_forward, cumprod_backward, (normal(45, 4, 5),),
        "    return dx", "    return np.where(x == 0, 0, dx)",
        "exact zeros", "tensorflow/tensorflow#119430"),
    Bug("max: all within 0.01 of the largest share", max_forward, max_backward, (np.linspace(-2, 2, 20).reshape(4, 5)
        [:, [2, 0, 4, 1, 3]],), "    return dx", "    return dy[:, None] * (x > x.max(axis=-1, keepdims=True) - 1e-2)",
        "nearly constant rows", "mni-ml/framework#22"),
    Bug("sinc: the formula without its limit at 0", sinc_forward, sinc_backward, (normal(47, 4, 5),),
        "dy * np.where(np.abs(x) < 1e-3, -x / 3, exact)", "dy * (np.cos(x) / x - np.sin(x) / x**2)",
        "zeros and tiny inputs"),
    Bug("max: a row is padded with zeros", max_forward, padded_max_backward, (mostly_positive(48, 4, 6),),
        ", constant_values=-np.inf", "",
        "negative rows alone"),
    Bug("softmax: equal largest scores each take their common mass", softmax_forward, softmax_backward,
        (normal(49, 4, 5),), "np.arange(x.shape[-1]) == x.argmax(axis=-1)[:, None]",
        "x == x.max(axis=-1, keepdims=True)",
        "ties"),
    Bug("RMSNorm: r² from x, without ε", rms_forward, rms_backward, (normal(50, 4, 8), 1 + 0.2 * normal(51, 8)),
        "r**3 * x", "r * x / (x * x).mean(axis=-1, keepdims=True)",
        "tiny inputs"),
)  # fmt: skip
