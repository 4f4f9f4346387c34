"""Bugs that show where scores are confident or gates saturated, in float64 and in float32."""

import numpy as np

from benchmarks.regimes.bug import Bug, normal, single, within


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


# A spike's surrogate: the sigmoid of a steep slope.
def surrogate_forward(x, slope=25.0):
    return sigmoid(slope * x), (x, slope)


def surrogate_backward(dy, cache):
    x, slope = cache
    s = sigmoid(slope * x)
    return dy * slope * s * (1 - s)


# SiLU, whose sigmoid is made of exp(x).
def silu_forward(x):
    return x * sigmoid(x), x


def silu_backward(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * s * (1 + x * (1 - s))


def silu_reference(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, (x, s)


def silu_reference_backward(dy, cache):
    x, s = cache
    return dy * s * (1 + x * (1 - s))


# Softplus without a threshold.
def softplus_forward(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), x


def softplus_backward(dy, x):
    return dy / (1 + np.exp(-x))


def softplus_reference(x):
    above = np.where(np.real(x) > 0, x, -x)
    return np.where(np.real(x) > 0, x, 0) + np.log1p(np.exp(-above)), x


def softplus_reference_backward(dy, x):
    return dy / (1 + np.exp(-x))


# sinh, whose derivative is guarded against overflow.
def sinh_forward(x):
    return np.sinh(x), x


def sinh_backward(dy, x):
    return dy * np.cosh(x)


# GELU with tanh.
def gelu_forward(x):
    t = np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), x


def gelu_backward(dy, x):
    z = 0.7978845608028654 * (x + 0.044715 * x**3)
    t = np.tanh(z)
    inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


# The entropy of a softmax, as in a reverse KL divergence.
def log_softmax(x):
    z = x - np.real(x).max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def entropy_forward(x):
    log_p = log_softmax(x)
    p = np.exp(log_p)
    return -(p * log_p).sum(axis=-1), (p, log_p)


def entropy_backward(dy, cache):
    p, log_p = cache
    inner = log_p + 1
    return -dy[..., None] * p * (inner - (p * inner).sum(axis=-1, keepdims=True))


# Binary cross-entropy of scores.
def bce_forward(x, t):
    return np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))), (x, t)


def bce_backward(dy, cache):
    x, t = cache
    p = sigmoid(x)
    return dy * (p - t), None


# A softmax whose rows are padded to whole blocks of 4; its backward takes the log of the row's sum.
def padded_softmax_forward(x):
    y = np.exp(log_softmax(x))
    top = x.max(axis=-1, keepdims=True)
    return y, (x, top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))


def padded_softmax_backward(dy, cache):
    x, lse = cache
    n = x.shape[-1]
    tail = ((0, 0), (0, -n % 4))
    x, dy = np.pad(x, tail), np.pad(dy, tail)
    p = np.where(np.arange(x.shape[-1]) < n, np.exp(x - lse), 0)
    return (p * (dy - (p * dy).sum(axis=-1, keepdims=True)))[:, :n]


def softmax_reference(x):
    e = np.exp(x - np.real(x).max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, p


def softmax_reference_backward(dy, p):
    return p * (dy - (p * dy).sum(axis=-1, keepdims=True))


SILU, SOFTPLUS = (silu_reference, silu_reference_backward), (softplus_reference, softplus_reference_backward)
SOFTMAX = softmax_reference, softmax_reference_backward
ENTROPY = entropy_forward, entropy_backward
TARGETS = np.random.default_rng(3).integers(0, 2, size=(4, 5))

BUGS = (
    Bug("surrogate sigmoid: exp(-z)/(1 + exp(-z))² is ∞/∞", surrogate_forward, surrogate_backward,
        (within(1, 1.0, 4, 5),), "dy * slope * s * (1 - s)",
        "dy * slope * np.exp(-slope * x) / (1 + np.exp(-slope * x)) ** 2",
        "large negative inputs", "jeshraghian/snntorch#427"),
    Bug("SiLU: the sigmoid as exp(x)/(1 + exp(x))", silu_forward, silu_backward, single(normal(2, 4, 6)),
        "1 / (1 + np.exp(-x))", "np.exp(x) / (1 + np.exp(x))",
        "large inputs", "trymirai/lalamo#328", SILU, "float32"),
    Bug("softplus: exp(x) times 1/(1 + exp(x)) is ∞ · 0", softplus_forward, softplus_backward,
        single(normal(3, 4, 6)), "dy / (1 + np.exp(-x))", "dy * np.exp(x) * (1 / (1 + np.exp(x)))",
        "large inputs", "tenstorrent/tt-metal#56397", SOFTPLUS, "float32"),
    Bug("sinh: a guard returns ∞ where the forward is finite", sinh_forward, sinh_backward, (normal(4, 4, 5),),
        "dy * np.cosh(x)", "dy * np.where(np.abs(x) > 88.5, np.inf, np.cosh(x))",
        "large inputs of both signs", "tenstorrent/tt-metal#52612"),
    Bug("GELU: tanh as (exp(2z) − 1)/(exp(2z) + 1)", gelu_forward, gelu_backward, (normal(5, 4, 5),),
        "np.tanh(z)", "(np.exp(2 * z) - 1) / (np.exp(2 * z) + 1)",
        "inputs above 20", "ooples/AiDotNet.Tensors#594"),
    Bug("entropy: log(p) of a p that underflowed", entropy_forward, entropy_backward, single(normal(6, 4, 6)),
        "log_p + 1", "np.log(p) + 1",
        "scores far apart", "MakazhanAlpamys/Soup#719", ENTROPY, "float32"),
    Bug("binary cross-entropy: p(1 − p) divided by itself", bce_forward, bce_backward, (normal(7, 4, 5), TARGETS),
        "dy * (p - t)", "dy * (p - t) / (p * (1 - p)) * (p * (1 - p))",
        "saturated scores"),
    Bug("softmax: columns that pad a block are not masked", padded_softmax_forward, padded_softmax_backward,
        single(normal(8, 4, 6)), "np.where(np.arange(x.shape[-1]) < n, np.exp(x - lse), 0)", "np.exp(x - lse)",
        "all scores of a row below -90", "ROCm/aiter#3551", SOFTMAX, "float32"),
)  # fmt: skip
