"""Keys in blocks of 3, probabilities computed again, the row sum by dy·y."""

import numpy as np

BLOCK = 3


def scores(q, k, visible, part):
    scale = np.float32(q.shape[-1] ** -0.5)
    return np.where(visible[:, part], q @ k[part].T * scale, np.float32(-1e9))


def forward(q, k, v, visible):
    top = np.full((len(q), 1), np.float32(-np.inf))
    total, y = np.zeros_like(top), np.zeros((len(q), v.shape[1]), dtype=q.dtype)
    for start in range(0, len(k), BLOCK):
        part = slice(start, start + BLOCK)
        s = scores(q, k, visible, part)
        higher = np.maximum(top, s.max(1, keepdims=True))
        e, shrink = np.exp(s - higher), np.exp(top - higher)
        y, total, top = y * shrink + e @ v[part], total * shrink + e.sum(1, keepdims=True), higher
    y = y / total
    return y, (q, k, v, visible, y, top + np.log(total))


def backward(dy, cache):
    q, k, v, visible, y, log_sum = cache
    scale = np.float32(q.shape[-1] ** -0.5)
    dq, dk, dv = np.zeros_like(q), np.empty_like(k), np.empty_like(v)
    dot = (dy * y).sum(1, keepdims=True)
    for start in range(0, len(k), BLOCK):
        part = slice(start, start + BLOCK)
        p = np.exp(scores(q, k, visible, part) - log_sum)
        ds = p * (dy @ v[part].T - dot) * scale
        dq += ds @ k[part]
        dk[part], dv[part] = ds.T @ q, p.T @ dy
    return dq, dk, dv
