"""Values of every forward, compared with a second implementation in plain NumPy or in loops.

A gradient check shows that backward is the derivative of *that* forward. It cannot show that the forward is
right; these checks do.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from npformer.backend import Backend
from npformer.functional import AttentionMask, Draw, merge_heads, split_heads
from npformer.lab.museum.checks.check import differ, normal, normals, of_backend
from npformer.typing import HostArray

DRAW = Draw(seed=3, step=1, micro=0, site=5, rate=0.25)


def _linear(backend: Backend) -> list[str]:
    x, w, b = normals(0, (2, 3, 4), (4, 5), (5,))
    y, _ = backend.ops.linear.forward(x, w, b)
    expected = [[[sum(t[i] * w[i, j] for i in range(4)) + b[j] for j in range(5)] for t in s] for s in x]
    return differ("y", y, expected)


def _activations(backend: Backend) -> list[str]:
    x = 2 * normal(3, 40)
    exact = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    relu, gelu = backend.ops.relu.forward(x)[0], backend.ops.gelu.forward(x)[0]
    return differ("relu", relu, [max(v, 0.0) for v in x]) + differ("gelu", gelu, exact)


def _softmax(backend: Backend) -> list[str]:
    x = normal(4, 3, 5)
    visible = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=bool)
    powers = np.exp(x) * visible
    y, _ = backend.ops.softmax.forward(x, visible)
    unmasked, _ = backend.ops.softmax.forward(x)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    return differ("y", unmasked, expected) + differ("masked y", y, powers / powers.sum(axis=1, keepdims=True))


def _embedding(backend: Backend) -> list[str]:
    table, tokens = normal(5, 6, 4), np.array([[3, 1, 3], [0, 5, 3]])
    y, _ = backend.ops.embedding.forward(tokens, table, 2.5)
    return differ("y", y, [[2.5 * table[token] for token in row] for row in tokens])


def _positions(backend: Backend) -> list[str]:
    found, _ = backend.ops.sinusoidal_positions.forward(np.zeros((1, 4, 6)), 3)
    expected = np.zeros((4, 6))
    for p, i in product(range(4), range(3)):
        angle = (p + 3) / 10000 ** (2 * i / 6)
        expected[p, 2 * i], expected[p, 2 * i + 1] = math.sin(angle), math.cos(angle)
    problems = differ("sinusoidal position 3 …", found[0], expected)
    table, x = normals(6, (7, 6), (2, 3, 6))
    learned, _ = backend.ops.learned_positions.forward(x, table, 2)
    return problems + differ("a learned position", learned, x + table[2:5])


def _layer_norm(backend: Backend) -> list[str]:
    x, gamma, beta = 3 + 2 * normal(8, 2, 3, 5), normal(9, 5), normal(10, 5)
    y, _ = backend.ops.layer_norm.forward(x, gamma, beta, 0.1)  # a large ε, so that an ε outside the root is noticed
    return differ("y", y, _normed(x, gamma, beta, 0.1))


def _normed(x: HostArray, gamma: HostArray, beta: HostArray, eps: float) -> HostArray:
    rows = [(row - sum(row) / len(row)) / math.sqrt(row.var() + eps) for row in x.reshape(-1, x.shape[-1])]
    return np.asarray(np.reshape(rows, x.shape) * gamma + beta)


def _attention(backend: Backend) -> list[str]:
    q, k, v = normals(11, (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4))
    out, _ = backend.ops.attention.forward(q, k, v)
    expected = np.zeros_like(q)
    for b, h, t in product(range(2), range(2), range(3)):
        powers = [math.exp(q[b, h, t] @ k[b, h, s] / math.sqrt(4)) for s in range(5)]
        expected[b, h, t] = sum(p * v[b, h, s] for s, p in enumerate(powers)) / sum(powers)
    return differ("out", out, expected)


def _heads(backend: Backend) -> list[str]:
    x = normal(14, 2, 3, 6)
    heads = split_heads(x, 2)
    expected = np.array([[x[b, :, 3 * h : 3 * h + 3] for h in range(2)] for b in range(2)])
    return differ("split", heads, expected) + differ("merged", merge_heads(expected), x)


def _mask(backend: Backend) -> list[str]:
    problems = []
    keys = np.array([[1, 1, 1, 0, 1, 1]], dtype=bool)
    like = np.zeros((1, 1))
    for causal, offset, window in product((False, True), (0, 2), (None, 2)):
        seen = AttentionMask(keys, causal=causal, query_offset=offset, window=window).visible(4, 6, like)
        expected = np.zeros((4, 6), dtype=int)
        for i, j in product(range(4), range(6)):
            back = i + offset - j
            near = window is None or abs(back) < window
            expected[i, j] = keys[0, j] and near and (back >= 0 or not causal)
        found = np.broadcast_to(np.asarray(seen), (1, 1, 4, 6))[0, 0].astype(int)
        problems += differ(f"causal={causal}, offset={offset}, window={window}: visible", found, expected)
    return problems


def _sums(backend: Backend) -> list[str]:
    x, f, gamma, beta = normals(15, (2, 3, 5), (2, 3, 5), (5,), (5,))
    plain, _ = backend.ops.residual.forward(x, f, None)
    post, _ = backend.ops.post_norm.forward(x, f, gamma, beta, 1e-5, None)
    (total, normed), _ = backend.ops.add_norm.forward(x, f, gamma, beta, 1e-5, None)
    expected = _normed(x + f, gamma, beta, 1e-5)
    return [
        *differ("x + f", plain, x + f),
        *differ("LN(x + f)", post, expected),
        *differ("the stream", total, x + f),
        *differ("its norm", normed, expected),
    ]


def _feed_forward(backend: Backend) -> list[str]:
    x, w1, b1, w2, b2 = normals(19, (2, 3, 4), (4, 6), (6,), (6, 4), (4,))
    y, _ = backend.ops.feed_forward.forward(x, w1, b1, w2, b2, "relu", None)
    return differ("y", y, np.clip(x @ w1 + b1, 0, None) @ w2 + b2)


def _cross_entropy(backend: Backend) -> list[str]:
    problems = []
    logits, targets = normal(24, 2, 3, 5), np.array([[1, 4, 0], [2, 0, 3]])
    for smoothing, large in product((0.0, 0.1), (1.0, 500.0)):
        terms = []
        for z, target in zip(large * logits.reshape(-1, 5), targets.ravel(), strict=True):
            log_p = z - z.max() - math.log(sum(math.exp(v - z.max()) for v in z))
            q = [(1 - smoothing) * (v == target) + smoothing / 5 for v in range(5)]
            terms += [-sum(q[v] * log_p[v] for v in range(5))] if target != 0 else []
        loss, _ = backend.ops.cross_entropy.forward(large * logits, targets, 0, smoothing)
        problems += differ(f"the loss at smoothing {smoothing}, logits × {large:g}", loss, sum(terms) / len(terms))
    return problems


CHECKS = of_backend(
    ("values of linear", "x W + b, in loops", _linear),
    ("values of activations", "max(x, 0) and x·Φ(x), with Python's own erf", _activations),
    ("values of softmax", "exp(x)/Σ exp(x) over the visible entries, rows that sum to 1", _softmax),
    ("values of embedding", "each token's row times the scale", _embedding),
    ("values of positions", "sines and cosines of the paper, position and offset; learned rows", _positions),
    ("values of layer_norm", "mean 0, variance 1 of each token, then γ and β", _layer_norm),
    ("values of attention", "softmax(QKᵀ/√D)V in loops over heads, queries and keys", _attention),
    ("values of heads", "head h owns the columns hD … hD+D−1", _heads),
    ("values of attention mask", "which query sees which key, pair by pair", _mask),
    ("values of sums and norms", "x + f, LN(x + f) and (x + f, LN(x + f))", _sums),
    ("values of feed_forward", "act(x W₁ + b₁) W₂ + b₂", _feed_forward),
    ("values of cross_entropy", "−Σ q log p per counted token, smoothing and padding included", _cross_entropy),
)
