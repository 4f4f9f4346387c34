"""Bugs of rounding: kernels in bfloat16 and float32 that lose digits before they subtract."""

import numpy as np

from benchmarks.precision.kernel import bfloat16
from benchmarks.regimes.bug import Bug, normal, single, within
from benchmarks.regimes.bugs_saturated import sigmoid


# Cross-entropy, whose gradient is softmax minus one at the true class.
def cross_entropy_forward(x, classes):
    z = x - x.max(axis=-1, keepdims=True)
    total = np.exp(z).sum(axis=-1, keepdims=True)
    p = np.exp(z) / total
    rows = np.arange(len(x))
    return bfloat16((np.log(total)[:, 0] - z[rows, classes]).mean()), (p, classes)


def cross_entropy_backward(dy, cache):
    p, classes = cache
    rows = np.arange(len(p))
    dx = p.copy()
    dx[rows, classes] -= 1
    return bfloat16(dy * dx / len(p))


def cross_entropy_reference(x, classes):
    z = x - np.real(x).max(axis=-1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=-1, keepdims=True)
    hot = np.eye(x.shape[-1])[classes]
    return ((np.log(total) - z) * hot).sum() / len(x), (e / total, hot)


def cross_entropy_reference_backward(dy, cache):
    p, hot = cache
    return dy * (p - hot) / len(p)


# A sigmoid from its stored output.
def sigmoid_forward(x):
    return bfloat16(sigmoid(x)), x


def sigmoid_backward(dy, x):
    s = sigmoid(x)
    return bfloat16(dy * s / (1 + np.exp(x)))


def sigmoid_reference(x):
    return 1 / (1 + np.exp(-x)), x


def sigmoid_reference_backward(dy, x):
    return dy / (1 + np.exp(-x)) / (1 + np.exp(x))


# tanh, whose derivative is 1/cosh².
def tanh_forward(x):
    return bfloat16(np.tanh(x)), x


def tanh_backward(dy, x):
    e = np.exp(-2 * np.abs(x))
    return bfloat16(dy * 4 * e / (1 + e) ** 2)


def tanh_reference(x):
    return np.tanh(x), x


def tanh_reference_backward(dy, x):
    return dy * 4 / (np.exp(x) + np.exp(-x)) ** 2


# Batch and layer normalisation in float32: the variance is computed anew in the backward.
def batch_norm_forward(x, gamma, beta):
    centred = x - x.mean(axis=0)
    r = 1 / np.sqrt((centred * centred).mean(axis=0) + 1e-5)
    return gamma * centred * r + beta, (x, gamma)


def batch_norm_backward(dy, cache):
    x, gamma = cache
    centred = x - x.mean(axis=0)
    var = (centred * centred).mean(axis=0)
    r = 1 / np.sqrt(var + np.float32(1e-5))
    x_hat = centred * r
    g = dy * gamma
    return r * (g - g.mean(axis=0) - x_hat * (g * x_hat).mean(axis=0)), (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def batch_norm_reference(x, gamma, beta):
    centred = x - x.mean(axis=0)
    r = 1 / np.sqrt((centred * centred).mean(axis=0) + 1e-5)
    return gamma * centred * r + beta, (centred * r, r, gamma)


def batch_norm_reference_backward(dy, cache):
    x_hat, r, gamma = cache
    g = dy * gamma
    return r * (g - g.mean(axis=0) - x_hat * (g * x_hat).mean(axis=0)), (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def layer_norm_forward(x, gamma, beta):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return gamma * centred * r + beta, (x, gamma)


def layer_norm_backward(dy, cache):
    x, gamma = cache
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(var + 1e-5)
    x_hat, g = (x - mean) * r, dy * gamma
    inner = g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    return r * inner, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def layer_norm_low_forward(x, gamma, beta):
    y, cache = layer_norm_forward(x, gamma, beta)
    return bfloat16(y), cache


def layer_norm_low_backward(dy, cache):
    x, gamma = cache
    mean = x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    x_hat, g = (x - mean) * r, dy * gamma
    inner = g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    return bfloat16(r * inner), bfloat16((dy * x_hat).sum(axis=0)), bfloat16(dy.sum(axis=0))


def layer_norm_reference(x, gamma, beta):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return gamma * centred * r + beta, (centred * r, r, gamma)


def layer_norm_reference_backward(dy, cache):
    x_hat, r, gamma = cache
    g = dy * gamma
    inner = g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    return r * inner, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


CROSS_ENTROPY = cross_entropy_reference, cross_entropy_reference_backward
LAYER_NORM = layer_norm_reference, layer_norm_reference_backward
CLASSES = np.array([2, 0, 5, 1])
ROWS = single(normal(25, 6, 16), 1 + 0.2 * normal(26, 16), normal(27, 16))

BUGS = (
    Bug("cross-entropy: softmax is stored before 1 is subtracted", cross_entropy_forward, cross_entropy_backward,
        (*single(normal(21, 4, 8)), CLASSES), "p.copy()", "bfloat16(p)",
        "the true class is certain", "linkedin/Liger-Kernel#1329", CROSS_ENTROPY, "bfloat16"),
    Bug("sigmoid: s(1 − s) of a stored s", sigmoid_forward, sigmoid_backward, single(within(22, 1.5, 4, 6)),
        "s / (1 + np.exp(x))", "bfloat16(s) * (1 - bfloat16(s))",
        "inputs above 6", "tenstorrent/tt-metal#55724", (sigmoid_reference, sigmoid_reference_backward), "bfloat16"),
    Bug("tanh: 1 − t² of a stored t²", tanh_forward, tanh_backward, single(within(23, 1.0, 4, 6)),
        "dy * 4 * e / (1 + e) ** 2", "dy * (1 - bfloat16(np.tanh(x) ** 2))",
        "inputs beyond 3", "tenstorrent/tt-metal#35885", (tanh_reference, tanh_reference_backward), "bfloat16"),
    Bug("batch norm: the variance as E[x²] − E[x]²", batch_norm_forward, batch_norm_backward,
        single(normal(24, 8, 5), 1 + 0.2 * normal(28, 5), normal(29, 5)),
        "(centred * centred).mean(axis=0)", "(x * x).mean(axis=0) - x.mean(axis=0) ** 2",
        "a large offset", "tenstorrent/tt-metal#45968",
        (batch_norm_reference, batch_norm_reference_backward), "float32"),
    Bug("layer norm: the variance as E[x²] − E[x]²", layer_norm_forward, layer_norm_backward, ROWS,
        "((x - mean) ** 2).mean(axis=-1, keepdims=True)",
        "np.maximum((x * x).mean(axis=-1, keepdims=True) - mean * mean, 0)",
        "a large offset", "tracel-ai/burn#5607", LAYER_NORM, "float32"),
    Bug("layer norm: the mean is rounded before it is subtracted", layer_norm_low_forward, layer_norm_low_backward,
        ROWS, "mean = x.mean(axis=-1, keepdims=True)", "mean = bfloat16(x.mean(axis=-1, keepdims=True))",
        "a large offset", "", LAYER_NORM, "bfloat16"),
)  # fmt: skip
