"""Wrong gradients of attention."""

import math

import numpy as np

from benchmarks.precision import references_of_products as of
from benchmarks.precision.draws import causal, headed, normal
from benchmarks.precision.kernel import bfloat16, tf32_product, wrong
from benchmarks.precision.right_attention import BLOCK, flash_forward, masked_forward, tf32_forward
from benchmarks.precision.right_softmax import rows


def without_scale(dy, cache):
    q, k, v, y, log_sum = cache
    p = np.exp(q @ k.T / math.sqrt(q.shape[-1]) - log_sum)
    ds = p * (dy @ v.T - (dy * y).sum(-1, keepdims=True))
    return ds @ k, ds.T @ q, p.T @ dy


def last_keys_not_visited(dy, cache):
    q, k, v, y, log_sum = cache
    scale = 1 / math.sqrt(q.shape[-1])
    inner = (dy * y).sum(-1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for start in range(0, len(k), BLOCK):
        part = slice(start, start + BLOCK)
        p = np.exp(q @ k[part].T * scale - log_sum)
        ds = p * (dy @ v[part].T - inner) * scale
        if start + BLOCK <= len(k):
            dq = dq + ds @ k[part]
        dk[part], dv[part] = ds.T @ q, p.T @ dy
    return dq, dk, dv


def mask_ignored(dy, cache):
    q, k, v, _, scale = cache
    p = rows(q @ k.T * scale)
    dp = dy @ v.T
    ds = bfloat16(p * (dp - (p * dp).sum(-1, keepdims=True)) * scale)
    return bfloat16(ds @ k), bfloat16(ds.T @ q), bfloat16(bfloat16(p).T @ dy)


def without_row_sum(dy, cache):
    q, k, v, p, scale = cache
    ds = p * tf32_product(dy, v.swapaxes(-1, -2)) * scale
    return tf32_product(ds, k), tf32_product(ds.swapaxes(-1, -2), q), tf32_product(p.swapaxes(-1, -2), dy)


def grouped_forward(q, k, v):
    """q (G, T, D); one k and one v (T, D) serve all heads of the group."""
    scale = 1 / math.sqrt(q.shape[-1])
    p = bfloat16(rows(q @ k.T * scale))
    return bfloat16(p @ v), (q, k, v, p, scale)


def keys_of_the_last_head(dy, cache):
    q, k, v, p, scale = cache
    dp = dy @ v.T
    ds = bfloat16(p * (dp - (p * dp).sum(-1, keepdims=True)) * scale)
    dk, dv = np.zeros_like(k), np.zeros_like(v)
    for head in range(len(q)):
        dk[:], dv[:] = ds[head].T @ q[head], p[head].T @ dy[head]
    return bfloat16(ds @ k), bfloat16(dk), bfloat16(dv)


KERNELS = (
    wrong(
        "attention in blocks of keys, float32, no scale",
        "float32", (flash_forward, without_scale), of.attention, headed(tokens=20, width=16),
        "1/√D is missing in dq and dk",
    ),
    wrong(
        "attention in blocks of keys, float32, last keys not visited",
        "float32", (flash_forward, last_keys_not_visited), of.attention, headed(tokens=20, width=16),
        "dq leaves out the 4 keys after the last whole block",
    ),
    wrong(
        "causal attention, bfloat16, mask ignored",
        "bfloat16", (masked_forward, mask_ignored), of.attention, causal(12, 16),
        "the backward computes its probabilities without the mask",
    ),
    wrong(
        "attention of two heads, TF32, no row sum",
        "tf32", (tf32_forward, without_row_sum), of.attention, headed(2, tokens=12, width=16),
        "the row sum of p·dp is missing",
    ),
    wrong(
        "grouped attention, bfloat16, one head's keys",
        "bfloat16", (grouped_forward, keys_of_the_last_head), of.grouped_attention,
        normal((3, 8, 16), (8, 16), (8, 16)),
        "dk and dv are those of the last query head, not the sum over heads",
    ),
)  # fmt: skip
