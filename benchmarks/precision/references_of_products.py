"""Reference pairs of products, attention, sums and choices, in elementary operations of NumPy."""

import numpy as np

from benchmarks.precision import references as of


def _linear_forward(x, w, b):
    return x @ w + b, (x, w)


def _linear_backward(dy, cache):
    x, w = cache
    return dy @ w.T, x.T @ dy, dy.sum(0)


linear = (_linear_forward, _linear_backward)


def _product_forward(a, b):
    return a @ b, (a, b)


def _product_backward(dy, cache):
    a, b = cache
    return dy @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ dy


product = (_product_forward, _product_backward)


def _twice_forward(x, w):
    h = x @ w
    return h @ w, (x, h, w)


def _twice_backward(dy, cache):
    x, h, w = cache
    dh = dy @ w.T
    return dh @ w.T, x.T @ dh + h.T @ dy


twice = (_twice_forward, _twice_backward)  # one weight, used two times


def _mlp_forward(x, w1, w2):
    a, kept = of.silu[0](x @ w1)
    return a @ w2, (x, w1, w2, a, kept)


def _mlp_backward(dy, cache):
    x, w1, w2, a, kept = cache
    dh = of.silu[1](dy @ w2.T, kept)
    return dh @ w1.T, x.T @ dh, a.T @ dy


mlp = (_mlp_forward, _mlp_backward)


def _attention_forward(q, k, v, mask=True):
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) * scale
    p, _ = of.softmax[0](np.where(mask, scores, -1e4))
    return p @ v, (q, k, v, p, scale)


def _attention_backward(dy, cache):
    q, k, v, p, scale = cache
    ds = of.softmax[1](dy @ v.swapaxes(-1, -2), p) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dy


attention = (_attention_forward, _attention_backward)  # the mask: True is visible


def _grouped_backward(dy, cache):
    dq, dk, dv = _attention_backward(dy, cache)
    return dq, dk.sum(0), dv.sum(0)


grouped_attention = (_attention_forward, _grouped_backward)  # q (G, T, D); k and v (T, D) serve all G


def _embedding_forward(table, ids):
    return table[ids], np.eye(len(table))[ids]


def _embedding_backward(dy, hot):
    return hot.T @ dy


embedding = (_embedding_forward, _embedding_backward)


def _cumulative_forward(x):
    seen = np.tril(np.ones((len(x), len(x))))
    return seen @ x, seen


def _cumulative_backward(dy, seen):
    return seen.T @ dy


cumulative = (_cumulative_forward, _cumulative_backward)  # sums down the columns


def _mean_forward(x):
    return x.sum(-1) / x.shape[-1], x.shape


def _mean_backward(dy, shape):
    return dy[..., None] / shape[-1] * np.ones(shape)


mean = (_mean_forward, _mean_backward)


def _row_max_forward(x):
    top = x.real == x.real.max(-1, keepdims=True)
    return (x * top).sum(-1), top


def _row_max_backward(dy, top):
    return dy[..., None] * top


row_max = (_row_max_forward, _row_max_backward)


def _relu_forward(x):
    return x * (x.real > 0), x.real > 0


def _relu_backward(dy, positive):
    return dy * positive


relu = (_relu_forward, _relu_backward)


def turns(tokens, width):
    """(cosines, sines) (tokens, width / 2) of the rotary positions."""
    angles = np.arange(tokens)[:, None] / 100 ** (np.arange(width // 2) * 2 / width)
    return np.cos(angles), np.sin(angles)


def _turned(x, sines_of):
    """Both halves of x's columns, turned; sines_of gives the second half of the sines."""
    cosines, sines = turns(*x.shape)
    other = np.roll(np.arange(x.shape[-1]), x.shape[-1] // 2)
    return x * np.tile(cosines, 2) + x[:, other] * np.concatenate(sines_of(sines), axis=1)


def _rotary_forward(x):
    return _turned(x, lambda sines: (-sines, sines)), None


def _rotary_backward(dy, cache):
    return _turned(dy, lambda sines: (sines, -sines))


rotary = (_rotary_forward, _rotary_backward)
