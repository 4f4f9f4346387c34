"""Kernels that are right in exact arithmetic and wrong in theirs: what they round is what they then subtract."""

import numpy as np

from benchmarks.precision import blind_second_references_more as references
from benchmarks.precision.blind_right import half, logistic, single
from benchmarks.precision.kernel import bfloat16, wrong


def mixed_forward(s, v):
    shifted = single(s) - single(s).max(axis=1, keepdims=True)
    e = np.exp(shifted)
    return half(np.einsum("be,bed->bd", e / e.sum(axis=1, keepdims=True), single(v))), (s, v)


def mixed_backward(dy, cache):
    s, v = cache
    e = half(np.exp(s))  # of low scores hardly more than the smallest float16
    p = single(e) / single(e).sum(axis=1, keepdims=True)
    dp = np.einsum("bd,bed->be", single(dy), single(v))
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return half(ds), half(p[:, :, None] * single(dy)[:, None])


def log_cosh_forward(x):
    return bfloat16((np.log1p(2 * np.sinh(x / 2) ** 2)).sum(axis=1)), x


def log_cosh_backward(dy, x):
    rise, fall = bfloat16(np.exp(x)), bfloat16(np.exp(-x))
    return (bfloat16(dy[:, None] * (rise - fall) / (rise + fall)),)


def deviation_forward(x):
    centred = x - x.mean(axis=0)
    y = np.sqrt(np.square(centred).mean(axis=0))
    return bfloat16(y), (x, y)


def deviation_backward(dy, cache):
    x, y = cache
    mean = x[0]
    for count, row in enumerate(x[1:], start=2):
        mean = bfloat16(mean + (row - mean) / count)  # soon a step is less than half a place of the mean
    return (bfloat16(dy * (x - mean) / (len(x) * y)),)


HALF_BIN = 1 / 256


def binned_forward(x):
    tails = np.logaddexp(0, -x - HALF_BIN) + np.logaddexp(0, x - HALF_BIN)
    return single(np.log(-np.expm1(-2 * HALF_BIN))) - tails, x


def binned_backward(dy, x):
    above, below = logistic(x + HALF_BIN), logistic(x - HALF_BIN)
    return (dy * (above * (1 - above) - below * (1 - below)) / (above - below),)


def pearson_forward(x, z):
    a, b = x - x.mean(axis=1, keepdims=True), z - z.mean(axis=1, keepdims=True)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    return (a * b).sum(axis=1) / np.sqrt(np.square(a).sum(axis=1) * np.square(b).sum(axis=1)), (x, z)


def pearson_backward(dy, cache):
    """The sums of x, z, x², z² and x z are made in one pass over the row."""
    x, z = cache
    count = x.shape[1]
    sums = [terms.sum(axis=1, keepdims=True) for terms in (x, z, x * x, z * z, x * z)]
    mx, mz = sums[0] / count, sums[1] / count
    xx, zz, xz = sums[2] - count * mx * mx, sums[3] - count * mz * mz, sums[4] - count * mx * mz
    a, b, scale = x - mx, z - mz, dy[:, None] / np.sqrt(xx * zz)
    return scale * (b - xz / xx * a), scale * (a - xz / zz * b)


def draw_mixed(rng):
    return rng.normal(size=(6, 5)) - 13, rng.normal(size=(6, 5, 4))


def draw_small(rng):
    return (0.02 * rng.normal(size=(6, 8)),)


def draw_levels(rng):
    return (12 + 0.5 * rng.normal(size=(100, 4)),)


def draw_logits(rng):
    return (1.5 * rng.normal(size=(8, 10)),)


def draw_pairs(rng):
    x, noise = rng.normal(size=(2, 5, 30))
    return 64 + x, 96 + 0.6 * x + noise


r = references
MIXED, MIXED_REFERENCE = (mixed_forward, mixed_backward), (r.mixed, r.mixed_backward)
LOG_COSH, LOG_COSH_REFERENCE = (log_cosh_forward, log_cosh_backward), (r.log_cosh, r.log_cosh_backward)
DEVIATION, DEVIATION_REFERENCE = (deviation_forward, deviation_backward), (r.deviation, r.deviation_backward)
BINNED, PEARSON = (binned_forward, binned_backward), (pearson_forward, pearson_backward)
PEARSON_REFERENCE = r.pearson, r.pearson_backward

KERNELS = (
    wrong(
        "mixture-unshifted", "float16", MIXED, MIXED_REFERENCE, draw_mixed, "no maximum leaves the float16 exponents"
    ),
    wrong("log-cosh", "bfloat16", LOG_COSH, LOG_COSH_REFERENCE, draw_small, "two rounded exponentials subtract"),
    wrong("deviation-running", "bfloat16", DEVIATION, DEVIATION_REFERENCE, draw_levels, "a mean runs in bfloat16"),
    wrong("logistic-bins", "float32", BINNED, r.binned(HALF_BIN), draw_logits, "neighbouring sigmoids subtract"),
    wrong("pearson-one-pass", "float32", PEARSON, PEARSON_REFERENCE, draw_pairs, "one-pass sums far from zero"),
)
