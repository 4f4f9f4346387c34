"""Right LayerNorms, RMSNorms and lengths in NumPy."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision.draws import normal, normed
from benchmarks.precision.kernel import bfloat16, float16, float32, right

EPS, RMS_EPS, BLOCK = 1e-5, 1e-6, 256


def blocked_sum(x):
    """The sum of each row, block by block."""
    total = np.zeros_like(x[:, :1])
    for start in range(0, x.shape[-1], BLOCK):
        total = total + x[:, start : start + BLOCK].sum(-1, keepdims=True)
    return total


def welford_forward(x, gamma, beta):
    """Mean and squared deviations in one pass, column by column."""
    mean, squares = np.zeros_like(x[:, :1]), np.zeros_like(x[:, :1])
    for n in range(x.shape[-1]):
        column = x[:, n : n + 1]
        step = column - mean
        mean = mean + step / (n + 1)
        squares = squares + step * (column - mean)
    r = 1 / np.sqrt(squares / x.shape[-1] + EPS)
    return gamma * ((x - mean) * r) + beta, (x, mean, r, gamma)


def layer_norm_backward(dy, cache):
    x, mean, r, gamma = cache
    h, g = (x - mean) * r, dy * gamma
    along_one, along_h = g.mean(-1, keepdims=True), (g * h).mean(-1, keepdims=True)
    return r * (g - along_one - h * along_h), (dy * h).sum(0), dy.sum(0)


def blocked_forward(x, gamma, beta):
    mean = blocked_sum(x) / x.shape[-1]
    r = 1 / np.sqrt(blocked_sum((x - mean) ** 2) / x.shape[-1] + EPS)
    return gamma * ((x - mean) * r) + beta, (x, mean, r, gamma)


def blocked_backward(dy, cache):
    x, mean, r, gamma = cache
    n = x.shape[-1]
    h, g = (x - mean) * r, dy * gamma
    return r * (g - blocked_sum(g) / n - h * (blocked_sum(g * h) / n)), (dy * h).sum(0), dy.sum(0)


def layer_norm_forward(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + EPS)
    return gamma * ((x - mean) * r) + beta, (x, mean, r, gamma)


def inside_forward(x, gamma, beta):
    y, cache = layer_norm_forward(x, gamma, beta)
    return bfloat16(y), cache


def inside_backward(dy, cache):
    return tuple(bfloat16(d) for d in layer_norm_backward(dy, cache))


def kept_forward(x, gamma, beta):
    """What is kept for the backward is kept in bfloat16."""
    y, (x, mean, r, gamma) = layer_norm_forward(x, gamma, beta)
    return bfloat16(y), (bfloat16((x - mean) * r), bfloat16(r), gamma)


def kept_backward(dy, cache):
    h, r, gamma = cache
    g = dy * gamma
    dx = r * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    return bfloat16(dx), bfloat16((dy * h).sum(0)), bfloat16(dy.sum(0))


def rounded_forward(x, gamma, beta):
    c = bfloat16(x - bfloat16(x.mean(-1, keepdims=True)))
    r = bfloat16(1 / bfloat16(np.sqrt(bfloat16(bfloat16(c * c).mean(-1, keepdims=True) + EPS))))
    h = bfloat16(c * r)
    return bfloat16(bfloat16(gamma * h) + beta), (h, r, gamma)


def rounded_backward(dy, cache):
    h, r, gamma = cache
    g = bfloat16(dy * gamma)
    along_one, along_h = bfloat16(g.mean(-1, keepdims=True)), bfloat16(bfloat16(g * h).mean(-1, keepdims=True))
    dx = bfloat16(r * bfloat16(bfloat16(g - along_one) - bfloat16(h * along_h)))
    return dx, bfloat16(bfloat16(dy * h).sum(0)), bfloat16(dy.sum(0))


def step_sum(x, axis):
    """The sum along an axis, rounded to bfloat16 after every addition."""
    columns = np.moveaxis(x, axis, 0)
    total = np.zeros_like(columns[0])
    for column in columns:
        total = bfloat16(total + column)
    return np.expand_dims(total, axis)


def low_rms_forward(x, gamma):
    square = bfloat16(step_sum(bfloat16(x * x), -1) / x.shape[-1])
    r = bfloat16(1 / bfloat16(np.sqrt(bfloat16(square + RMS_EPS))))
    h = bfloat16(x * r)
    return bfloat16(gamma * h), (h, r, gamma)


def low_rms_backward(dy, cache):
    h, r, gamma = cache
    g = bfloat16(dy * gamma)
    along_h = bfloat16(step_sum(bfloat16(g * h), -1) / h.shape[-1])
    dx = bfloat16(r * bfloat16(g - bfloat16(h * along_h)))
    return dx, step_sum(bfloat16(dy * h), 0)[0]


def half_rms_forward(x, gamma):
    """float16 with float32 sums; h is kept in float16, r in float32."""
    r = 1 / np.sqrt((float32(x) ** 2).mean(-1, keepdims=True) + RMS_EPS)
    h = float16(x * r)
    return gamma * h, (h, r, gamma)


def half_rms_backward(dy, cache):
    h, r, gamma = cache
    g = dy * gamma
    along_h = float32(g * h).mean(-1, keepdims=True)
    return float16(r * (g - h * along_h)), float16(float32(dy * h).sum(0))


def half_forward(x, gamma, beta):
    y, cache = layer_norm_forward(float32(x), float32(gamma), float32(beta))
    return float16(y), cache


def half_backward(dy, cache):
    return tuple(float16(d) for d in layer_norm_backward(float32(dy), cache))


def unit_forward(x):
    r = 1 / np.sqrt(blocked_sum(x * x))
    y = x * r
    return y, (y, r)


def unit_backward(dy, cache):
    y, r = cache
    return r * (dy - y * blocked_sum(dy * y))


LAYER_NORM, RMS_NORM = of.layer_norm(EPS), of.rms_norm(RMS_EPS)

KERNELS = (
    right(
        "Welford LayerNorm, float32, offset 8",
        "float32", (welford_forward, layer_norm_backward), LAYER_NORM, normed(8, 64, offset=8),
    ),
    right(
        "LayerNorm in blocks, float32, 8×4096, offset 8",
        "float32", (blocked_forward, blocked_backward), LAYER_NORM, normed(8, 4096, offset=8),
    ),
    right(
        "LayerNorm, bfloat16 with float32 inside, 8×512, offset 30",
        "bfloat16", (inside_forward, inside_backward), LAYER_NORM, normed(8, 512, offset=30),
    ),
    right(
        "LayerNorm, bfloat16, parts kept in bfloat16",
        "bfloat16", (kept_forward, kept_backward), LAYER_NORM, normed(8, 64, scale=2),
    ),
    right(
        "LayerNorm, bfloat16, rounded after every operation",
        "bfloat16", (rounded_forward, rounded_backward), LAYER_NORM, normed(8, 64),
    ),
    right(
        "RMSNorm, bfloat16, sums rounded after every addition",
        "bfloat16", (low_rms_forward, low_rms_backward), RMS_NORM, normed(4, 8, bias=False), accumulate="bfloat16",
    ),
    right(
        "RMSNorm, float16 with float32 sums",
        "float16", (half_rms_forward, half_rms_backward), RMS_NORM, normed(8, 128, bias=False),
    ),
    right(
        "rows of length 1, in blocks, float32, 2×4096",
        "float32", (unit_forward, unit_backward), of.unit, normal((2, 4096), scale=0.1),
    ),
)  # fmt: skip
