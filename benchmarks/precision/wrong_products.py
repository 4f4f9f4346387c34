"""Wrong gradients of products, linear layers, look-ups, sums and rotations."""

import numpy as np

from benchmarks.precision import references_of_products as of
from benchmarks.precision.draws import looked_up, normal, weighted
from benchmarks.precision.kernel import bfloat16, edited, tf32_product, wrong
from benchmarks.precision.right_products import (
    embedding_forward,
    half_linear_backward,
    half_linear_forward,
    half_rotary_backward,
    half_rotary_forward,
    linear_backward,
    linear_forward,
    tf32_linear_backward,
    tf32_linear_forward,
    tf32_mlp_forward,
)


def last_column_not_written(dy, cache):
    x, w = cache
    dw = np.zeros_like(w)
    dw[:, :-1] = x.T @ dy[:, :-1]
    return dy @ w.T, dw, dy.sum(0)


def twice_forward(x, w):
    """One weight, used two times."""
    h = bfloat16(x @ w)
    return bfloat16(h @ w), (x, h, w)


def last_use_alone(dy, cache):
    x, h, w = cache
    dh = bfloat16(dy @ w.T)
    dw = bfloat16(x.T @ dh)
    dw[:] = bfloat16(h.T @ dy)
    return bfloat16(dh @ w.T), dw


def repeated_words_overwrite(dy, cache):
    shape, ids = cache
    dtable = np.zeros(shape, dtype=dy.dtype)
    dtable[ids] += dy
    return dtable


def slope_at_the_output(dy, cache):
    x, w1, w2, _, a = cache
    s = 1 / (1 + np.exp(-a))
    dh = tf32_product(dy, w2.T) * (s * (1 + a * (1 - s)))
    return tf32_product(dh, w1.T), tf32_product(x.T, dh), tf32_product(a.T, dy)


def cumulative_forward(x):
    return np.cumsum(x, axis=0), None


def not_reversed(dy, cache):
    return np.cumsum(dy, axis=0)


KERNELS = (
    wrong(
        "linear layer, bfloat16, dW × 1.02",
        "bfloat16", (linear_forward, edited(linear_backward, "@ dy)", "@ dy * 1.02)")), of.linear, weighted(64, 32, 24),
        "dW is 2 % too large",
    ),
    wrong(
        "linear layer, bfloat16, dW × 1.1",
        "bfloat16", (linear_forward, edited(linear_backward, "@ dy)", "@ dy * 1.1)")), of.linear, weighted(16, 8, 6),
        "dW is 10 % too large",
    ),
    wrong(
        "linear layer, float16, dW × 1.002",
        "float16", (half_linear_forward, edited(half_linear_backward, "@ dy)", "@ dy * 1.002)")),
        of.linear, weighted(64, 32, 24),
        "dW is 0.2 % too large",
    ),
    wrong(
        "linear layer, TF32, a mean for db",
        "tf32", (tf32_linear_forward, edited(tf32_linear_backward, "dy.sum(0)", "dy.mean(0)")),
        of.linear, weighted(48, 32, 16),
        "db is divided by the tokens",
    ),
    wrong(
        "linear layer, TF32, W not transposed",
        "tf32", (tf32_linear_forward, edited(tf32_linear_backward, "w.T", "w")), of.linear, weighted(20, 16, 16),
        "dx is dy·W for dy·Wᵀ",
    ),
    wrong(
        "linear layer, TF32, last tokens not summed",
        "tf32", (tf32_linear_forward, edited(tf32_linear_backward, "x.T, dy", "x[:64].T, dy[:64]")),
        of.linear, weighted(65, 24, 16),
        "dW leaves out the token after the last whole block",
    ),
    wrong(
        "linear layer, float32, last column not written",
        "float32", (of.linear[0], last_column_not_written), of.linear, weighted(24, 12, 9),
        "the last column of dW stays 0",
    ),
    wrong(
        "one weight used two times, bfloat16, one use lost",
        "bfloat16", (twice_forward, last_use_alone), of.twice, weighted(32, 16, 16, bias=False),
        "dW of the second use replaces that of the first",
    ),
    wrong(
        "embedding, float32, repeated words",
        "float32", (embedding_forward, repeated_words_overwrite),
        of.embedding, looked_up(12, 16, 40),
        "rows of a repeated word replace each other",
    ),
    wrong(
        "two linear layers and a SiLU, TF32, slope at the output",
        "tf32", (tf32_mlp_forward, slope_at_the_output), of.mlp,
        lambda rng: (*weighted(16, 24, 32, bias=False)(rng), rng.normal(size=(32, 8)) / 32**0.5),
        "the SiLU's slope is taken at its output",
    ),
    wrong(
        "rotary positions, float16, turned again",
        "float16", (half_rotary_forward, edited(half_rotary_backward, "s = cache", "s = cache[0], -cache[1]")),
        of.rotary, normal((8, 12)),
        "dy is turned forwards; the sign of the sines is wrong",
    ),
    wrong(
        "cumulative sum, float32, not reversed",
        "float32", (cumulative_forward, not_reversed), of.cumulative, normal((16, 5)),
        "sums of dy from the start for sums from the end",
    ),
)  # fmt: skip
