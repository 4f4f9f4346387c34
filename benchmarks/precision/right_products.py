"""Right products, linear layers, look-ups and rotations in NumPy."""

import numpy as np

from benchmarks.precision import references_of_products as of
from benchmarks.precision.draws import looked_up, normal, weighted
from benchmarks.precision.kernel import bfloat16, float16, float32, right, tf32_product


def tf32_linear_forward(x, w, b):
    return tf32_product(x, w) + b, (x, w)


def tf32_linear_backward(dy, cache):
    x, w = cache
    return tf32_product(dy, w.T), tf32_product(x.T, dy), dy.sum(0)


def linear_forward(x, w, b):
    """bfloat16 in and out, float32 sums."""
    return bfloat16(x @ w + b), (x, w)


def linear_backward(dy, cache):
    x, w = cache
    return bfloat16(dy @ w.T), bfloat16(x.T @ dy), bfloat16(dy.sum(0))


def half_linear_forward(x, w, b):
    """float16 in and out, float32 sums."""
    return float16(float32(x) @ float32(w)) + b, (x, w)


def half_linear_backward(dy, cache):
    x, w = (float32(each) for each in cache)
    dy = float32(dy)
    return float16(dy @ w.T), float16(x.T @ dy), float16(dy.sum(0))


def step_product(a, b):
    """a @ b whose every product and every addition is rounded to bfloat16."""
    total = np.zeros((len(a), b.shape[1]), dtype=a.dtype)
    for i in range(a.shape[1]):
        total = bfloat16(total + bfloat16(a[:, i : i + 1] * b[i]))
    return total


def step_forward(a, b):
    return step_product(a, b), (a, b)


def step_backward(dy, cache):
    a, b = cache
    return step_product(dy, b.T), step_product(a.T, dy)


def tf32_mlp_forward(x, w1, w2):
    h = tf32_product(x, w1)
    a = h / (1 + np.exp(-h))
    return tf32_product(a, w2), (x, w1, w2, h, a)


def tf32_mlp_backward(dy, cache):
    x, w1, w2, h, a = cache
    s = 1 / (1 + np.exp(-h))
    dh = tf32_product(dy, w2.T) * (s + a * (1 - s))
    return tf32_product(dh, w1.T), tf32_product(x.T, dh), tf32_product(a.T, dy)


def embedding_forward(table, ids):
    return table[ids], (table.shape, ids)


def embedding_backward(dy, cache):
    """The rows of repeated words are added in float32 and rounded once."""
    shape, ids = cache
    dtable = np.zeros(shape, dtype=dy.dtype)
    np.add.at(dtable, ids, dy)
    return bfloat16(dtable)


def half_rotary_forward(x):
    """The sines and cosines are kept in float16."""
    cosines, sines = (float16(each) for each in of.turns(*x.shape))
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1), (
        cosines,
        sines,
    )


def half_rotary_backward(dy, cache):
    cosines, sines = cache
    first, second = np.split(dy, 2, axis=-1)
    return np.concatenate([first * cosines + second * sines, second * cosines - first * sines], axis=-1)


KERNELS = (
    right(
        "linear layer, TF32",
        "tf32", (tf32_linear_forward, tf32_linear_backward), of.linear, weighted(48, 32, 16),
    ),
    right(
        "two linear layers and a SiLU, TF32",
        "tf32", (tf32_mlp_forward, tf32_mlp_backward), of.mlp,
        lambda rng: (*weighted(16, 24, 32, bias=False)(rng), rng.normal(size=(32, 8)) / 32**0.5),
    ),
    right(
        "linear layer, bfloat16 with float32 sums",
        "bfloat16", (linear_forward, linear_backward), of.linear, weighted(64, 32, 24),
    ),
    right(
        "linear layer, float16 with float32 sums",
        "float16", (half_linear_forward, half_linear_backward), of.linear, weighted(64, 32, 24),
    ),
    right(
        "product, bfloat16, sums rounded after every addition",
        "bfloat16", (step_forward, step_backward), of.product, normal((4, 8), (8, 6)), accumulate="bfloat16",
    ),
    right(
        "embedding, bfloat16 with float32 sums",
        "bfloat16", (embedding_forward, embedding_backward), of.embedding, looked_up(12, 16, 40),
    ),
    right(
        "rotary positions, float16",
        "float16", (half_rotary_forward, half_rotary_backward), of.rotary, normal((8, 12)),
    ),
)  # fmt: skip
