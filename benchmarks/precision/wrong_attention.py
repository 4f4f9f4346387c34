"""Wrong gradients of attention."""

import math

import numpy as np

from benchmarks.precision import references_of_products as of
from benchmarks.precision.draws import causal, headed, normal
from benchmarks.precision.kernel import bfloat16, edited, wrong
from benchmarks.precision.right_attention import (
    flash_backward,
    flash_forward,
    masked_forward,
    tf32_backward,
    tf32_forward,
)
from benchmarks.precision.right_softmax import rows


def without_scale(dy, cache):
    q, k, v, y, log_sum = cache
    p = np.exp(q @ k.T / math.sqrt(q.shape[-1]) - log_sum)
    ds = p * (dy @ v.T - (dy * y).sum(-1, keepdims=True))
    return ds @ k, ds.T @ q, p.T @ dy


def mask_ignored(dy, cache):
    q, k, v, _, scale = cache
    p = rows(q @ k.T * scale)
    dp = dy @ v.T
    ds = bfloat16(p * (dp - (p * dp).sum(-1, keepdims=True)) * scale)
    return bfloat16(ds @ k), bfloat16(ds.T @ q), bfloat16(bfloat16(p).T @ dy)


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
        "float32", (flash_forward, edited(flash_backward, "dq + ds", "dq + (start + BLOCK <= len(k)) * ds")),
        of.attention, headed(tokens=20, width=16),
        "dq leaves out the 4 keys after the last whole block",
    ),
    wrong(
        "causal attention, bfloat16, mask ignored",
        "bfloat16", (masked_forward, mask_ignored), of.attention, causal(12, 16),
        "the backward computes its probabilities without the mask",
    ),
    wrong(
        "attention of two heads, TF32, no row sum",
        "tf32", (tf32_forward, edited(tf32_backward, " - (p * dp).sum(-1, keepdims=True)", "")),
        of.attention, headed(2, tokens=12, width=16),
        "the row sum of p·dp is missing",
    ),
    wrong(
        "grouped attention, bfloat16, one head's keys",
        "bfloat16", (grouped_forward, keys_of_the_last_head), of.grouped_attention,
        normal((3, 8, 16), (8, 16), (8, 16)),
        "dk and dv are those of the last query head, not the sum over heads",
    ),
)  # fmt: skip
