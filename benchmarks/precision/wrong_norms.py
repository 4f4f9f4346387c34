"""Wrong gradients of norms."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision.draws import normal, normed
from benchmarks.precision.kernel import bfloat16, edited, wrong
from benchmarks.precision.right_norms import (
    LAYER_NORM,
    RMS_NORM,
    blocked_backward,
    blocked_forward,
    inside_forward,
    kept_backward,
    kept_forward,
    unit_backward,
    unit_forward,
)


def without_normalised_term(dy, cache):
    x, mean, r, gamma = cache
    g = dy * gamma
    dgamma = (dy * ((x - mean) * r)).sum(0)
    return bfloat16(r * (g - g.mean(-1, keepdims=True))), bfloat16(dgamma), bfloat16(dy.sum(0))


def rms_forward(x, gamma):
    """bfloat16 with float32 inside."""
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return bfloat16(gamma * (x * r)), (x, r, gamma)


def rms_without_second_term(dy, cache):
    x, r, gamma = cache
    return bfloat16(dy * gamma * r), bfloat16((dy * x * r).sum(0))


def float32_rms_forward(x, gamma):
    return gamma * (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)), (x, gamma)


def another_eps(dy, cache):
    x, gamma = cache
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    h, g = x * r, dy * gamma
    return r * (g - h * (g * h).mean(-1, keepdims=True)), (dy * h).sum(0)


def batch_norm_forward(x):
    r = 1 / np.sqrt(x.var(0) + 1e-5)
    h = (x - x.mean(0)) * r
    return h, (h, r)


def over_one_less(dy, cache):
    h, r = cache
    return r * (dy - dy.mean(0) - h * ((dy * h).sum(0) / (len(h) - 1)))


WHOLE_BLOCKS = "(g * h)[:, : n // BLOCK * BLOCK].sum(-1, keepdims=True)"

KERNELS = (
    wrong(
        "LayerNorm, bfloat16, no mean of dy",
        "bfloat16", (kept_forward, edited(kept_backward, "g.mean(-1, keepdims=True) - ", "")),
        LAYER_NORM, normed(8, 64),
        "the mean of γ·dy is missing",
    ),
    wrong(
        "LayerNorm, bfloat16, offset 30, no x̂ term",
        "bfloat16", (inside_forward, without_normalised_term), LAYER_NORM, normed(8, 512, offset=30),
        "x̂ times the mean of γ·dy·x̂ is missing",
    ),
    wrong(
        "LayerNorm, bfloat16, another row's statistic",
        "bfloat16", (kept_forward, edited(kept_backward, "dx = r", "dx = np.roll(r, 1, axis=0)")),
        LAYER_NORM, normed(8, 64),
        "1/σ is that of the row before",
    ),
    wrong(
        "LayerNorm in blocks, float32, end of the row not summed",
        "float32", (blocked_forward, edited(blocked_backward, "blocked_sum(g * h)", WHOLE_BLOCKS)),
        LAYER_NORM, normed(4, 260, offset=2),
        "the mean of γ·dy·x̂ leaves out the 4 columns after the last whole block",
    ),
    wrong(
        "RMSNorm, bfloat16, 4×2048, no second term",
        "bfloat16", (rms_forward, rms_without_second_term), RMS_NORM, normed(4, 2048, bias=False),
        "x̂ times the mean of γ·dy·x̂ is missing",
    ),
    wrong(
        "RMSNorm, float32, another eps",
        "float32", (float32_rms_forward, another_eps), RMS_NORM, normed(6, 32, bias=False),
        "eps is 1e-5 in the backward, 1e-6 in the forward",
    ),
    wrong(
        "batch norm, float32, 1/(N − 1)",
        "float32", (batch_norm_forward, over_one_less), of.batch_norm, normal((6, 10)),
        "one mean over 6 rows is divided by 5",
    ),
    wrong(
        "rows of length 1, float32, 2×4096, no projection",
        "float32", (unit_forward, edited(unit_backward, " - y * blocked_sum(dy * y)", "")), of.unit, normal((2, 4096)),
        "y times the row sum of dy·y is missing",
    ),
)  # fmt: skip
