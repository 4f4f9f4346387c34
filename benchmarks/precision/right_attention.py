"""Right attention in NumPy."""

import math

import numpy as np

from benchmarks.precision import references_of_products as of
from benchmarks.precision.draws import causal, headed
from benchmarks.precision.kernel import bfloat16, right, tf32_product
from benchmarks.precision.right_softmax import rows

BLOCK = 8


def flash_forward(q, k, v):
    """Blocks of keys, a running maximum and a running sum; the logarithm of each row's sum is kept."""
    scale = 1 / math.sqrt(q.shape[-1])
    top = np.full_like(q[:, :1], -np.inf)
    total, out = np.zeros_like(top), np.zeros_like(q)
    for start in range(0, len(k), BLOCK):
        part = slice(start, start + BLOCK)
        scores = q @ k[part].T * scale
        higher = np.maximum(top, scores.max(-1, keepdims=True))
        e, shrink = np.exp(scores - higher), np.exp(top - higher)
        total, out, top = total * shrink + e.sum(-1, keepdims=True), out * shrink + e @ v[part], higher
    y = out / total
    return y, (q, k, v, y, top + np.log(total))


def flash_backward(dy, cache):
    q, k, v, y, log_sum = cache
    scale = 1 / math.sqrt(q.shape[-1])
    inner = (dy * y).sum(-1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for start in range(0, len(k), BLOCK):
        part = slice(start, start + BLOCK)
        p = np.exp(q @ k[part].T * scale - log_sum)
        ds = p * (dy @ v[part].T - inner) * scale
        dq, dk[part], dv[part] = dq + ds @ k[part], ds.T @ q, p.T @ dy
    return dq, dk, dv


def tf32_forward(q, k, v):
    scale = 1 / math.sqrt(q.shape[-1])
    p = rows(tf32_product(q, k.swapaxes(-1, -2)) * scale)
    return tf32_product(p, v), (q, k, v, p, scale)


def tf32_backward(dy, cache):
    q, k, v, p, scale = cache
    dp = tf32_product(dy, v.swapaxes(-1, -2))
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return tf32_product(ds, k), tf32_product(ds.swapaxes(-1, -2), q), tf32_product(p.swapaxes(-1, -2), dy)


def masked_forward(q, k, v, mask):
    """bfloat16 with float32 sums; the probabilities are kept in bfloat16."""
    scale = 1 / math.sqrt(q.shape[-1])
    p = bfloat16(rows(np.where(mask, q @ k.T * scale, -np.inf)))
    return bfloat16(p @ v), (q, k, v, p, scale)


def masked_backward(dy, cache):
    q, k, v, p, scale = cache
    dp = dy @ v.T
    ds = bfloat16(p * (dp - (p * dp).sum(-1, keepdims=True)) * scale)
    return bfloat16(ds @ k), bfloat16(ds.T @ q), bfloat16(p.T @ dy)


KERNELS = (
    right(
        "attention in blocks of keys, float32",
        "float32", (flash_forward, flash_backward), of.attention, headed(tokens=20, width=16),
    ),
    right(
        "attention of two heads, TF32",
        "tf32", (tf32_forward, tf32_backward), of.attention, headed(2, tokens=12, width=16),
    ),
    right(
        "causal attention, bfloat16, probabilities kept in bfloat16",
        "bfloat16", (masked_forward, masked_backward), of.attention, causal(12, 16),
    ),
)  # fmt: skip
