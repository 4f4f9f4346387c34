"""Bugs that show at other sizes: past a block's edge, at one row, and where queries and keys differ in number."""

import numpy as np

from benchmarks.regimes.bug import Bug, normal


def softmax(x):
    e = np.exp(x - np.real(x).max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# Causal attention, aligned at the last query and the last key.
def causal_forward(q, k, v):
    s, t = len(q), len(k)
    visible = np.arange(t) <= np.arange(s)[:, None] + max(t - s, 0)
    p = softmax(np.where(visible, q @ k.T / np.sqrt(q.shape[-1]), -1e9))
    return p @ v, (q, k, v, p)


def causal_backward(dy, cache):
    q, k, v, p = cache
    s, t = len(q), len(k)
    p = np.where(np.arange(t) <= np.arange(s)[:, None] + max(t - s, 0), p, 0)
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ dy


# Attention without a softmax: the mean over the keys.
def linear_forward(q, k, v):
    return q @ (k.T @ v) / len(k), (q, k, v)


def linear_backward(dy, cache):
    q, k, v = cache
    n = len(k)
    return dy @ (v.T @ k) / n, v @ (dy.T @ q) / n, k @ (q.T @ dy) / n


# Attention, the keys in blocks of 32.
def blocked_forward(q, k, v):
    p = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    return p @ v, (q, k, v, p)


def blocked_backward(dy, cache):
    q, k, v, p = cache
    dk, dv, dq = np.zeros_like(k), np.zeros_like(v), np.zeros_like(q)
    inner = (dy * (p @ v)).sum(axis=-1, keepdims=True)
    for block in range(-(-len(k) // 32)):
        part = slice(32 * block, 32 * block + 32)
        ds = p[:, part] * (dy @ v[part].T - inner) / np.sqrt(q.shape[-1])
        dq += ds @ k[part]
        dk[part], dv[part] = ds.T @ q, p[:, part].T @ dy
    return dq, dk, dv


# Layer normalisation in one block of columns, or in several.
def layer_norm_forward(x, gamma, beta):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return gamma * centred * r + beta, (centred * r, r, gamma)


def columns_backward(dy, cache):
    x_hat, r, gamma = cache
    n, g = x_hat.shape[-1], dy * gamma
    columns = range(n)
    one = sum(g[:, i] for i in columns)[:, None] / n
    two = sum(g[:, i] * x_hat[:, i] for i in columns)[:, None] / n
    return r * (g - one - x_hat * two), (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def rows_backward(dy, cache):
    x_hat, r, gamma = cache
    dx, rows = np.zeros_like(x_hat), 1 if len(dy) < 32 else 4
    for start in range(0, len(dy), rows):
        part = slice(start, start + rows)
        g = dy[part] * gamma
        two = (g * x_hat[part]).sum(axis=1, keepdims=True) / g.shape[1]
        dx[part] = r[part] * (g - g.mean(axis=1, keepdims=True) - x_hat[part] * two)
    return dx, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


# A causal convolution over (T, D) that goes on from a state of W − 1 steps, and returns the next state.
def conv_forward(x, w, state):
    width = len(w)
    full = np.concatenate([state, x])
    y = sum(w[j] * full[j : j + len(x)] for j in range(width))
    return (y, full[len(x) :]), (x, w, state)


def conv_backward(dy, cache):
    x, w, state = cache
    (dy, dnext), width = dy, len(w)
    full, d = np.concatenate([state, x]), np.zeros((len(state) + len(x), x.shape[1]))
    for j in range(width):
        d[j : j + len(x)] += w[j] * dy
    last = len(x)
    d[last:] += dnext[len(dnext) - (len(d) - last) :]
    dw = np.stack([(dy * full[j : j + len(x)]).sum(axis=0) for j in range(width)])
    return d[len(state) :], dw, d[: len(state)]


# A gated scan h_t = a_t h_(t−1) + x_t, in chunks of 64.
def scan_forward(x, a):
    h, kept = np.zeros_like(x[0]), []
    for t in range(len(x)):
        h = a[t] * h + x[t]
        kept.append(h)
    return np.stack(kept), (a, np.stack(kept))


def scan_backward(dy, cache):
    a, h = cache
    dx, da, carried = np.zeros_like(dy), np.zeros_like(a), np.zeros_like(dy[0])
    whole = len(dy)
    for t in reversed(range(len(dy))):
        carried = carried + dy[t]
        dx[t] = carried
        if t and t < whole:
            da[t] = carried * h[t - 1]
        carried = carried * a[t]
    return dx, da


# Attention with a bias that grows with distance; long rows are padded to whole blocks of 128.
def distance_forward(q, k, v):
    t = len(k)
    p = softmax(q @ k.T / np.sqrt(q.shape[-1]) - 0.1 * np.abs(np.arange(len(q))[:, None] - np.arange(t)))
    return p @ v, (q, k, v, p)


def distance_backward(dy, cache):
    q, k, v, p = cache
    s = len(q)
    extra = -s % 128 if s > 128 else 0
    p, q, dy = np.pad(p, ((0, extra), (0, 0))), np.pad(q, ((0, extra), (0, 0))), np.pad(dy, ((0, extra), (0, 0)))
    hidden = np.full((extra, len(k)), -np.inf)
    p[s:] = np.exp(np.maximum(hidden, -1e9))
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return (ds @ k)[:s], ds.T @ q, p.T @ dy


# A gain over the columns, four at a time.
def gain_forward(x, gain):
    return x * gain, (x, gain)


def gain_backward(dy, cache):
    x, gain = cache
    dgain = (dy * x).sum(axis=0)
    n = len(dgain)
    return dy * gain, dgain[:n]


BUGS = (
    Bug("causal attention: aligned at the first query and key", causal_forward, causal_backward,
        (normal(81, 5, 3), normal(82, 5, 3), normal(83, 5, 4)), "p = np.where(np.arange(t) <= np.arange(s)[:, None] "
        "+ max(t - s, 0), p, 0)", "p = np.where(np.arange(t) <= np.arange(s)[:, None], p, 0)",
        "fewer queries than keys", "xlite-dev/ffpa-attn#300"),
    Bug("linear attention: divided by the number of queries", linear_forward, linear_backward,
        (normal(84, 5, 3), normal(85, 5, 3), normal(86, 5, 4)), "n = len(k)", "n = len(q)",
        "other numbers of queries and keys"),
    Bug("attention: a last block that is not full is left out", blocked_forward, blocked_backward,
        (normal(87, 4, 3), normal(88, 6, 3), normal(89, 6, 2)), "range(-(-len(k) // 32))",
        "range(max(1, len(k) // 32))",
        "33 keys", "flagos-ai/FlagGems#898"),
    Bug("layer norm: columns past the block are not summed", layer_norm_forward, columns_backward,
        (normal(90, 4, 6), 1 + 0.2 * normal(91, 6), normal(92, 6)), "range(n)", "range(min(n, 64))",
        "65 columns", "facebookresearch/xformers#785"),
    Bug("layer norm: one sum for all rows of a block", layer_norm_forward, rows_backward,
        (normal(93, 4, 6), 1 + 0.2 * normal(94, 6), normal(95, 6)),
        "(g * x_hat[part]).sum(axis=1, keepdims=True) / g.shape[1]", "(g * x_hat[part]).sum() / g.shape[1]",
        "32 rows", "flagos-ai/FlagGems#59"),
    Bug("convolution: the state's slot is clamped at 0", conv_forward, conv_backward,
        (normal(96, 6, 2), normal(97, 4, 2), normal(98, 3, 2)), "last = len(x)", "last = max(len(x), len(state))",
        "fewer steps than the width", "fla-org/flash-linear-attention#1140"),
    Bug("scan: the gate's gradient is dropped in a last chunk that is not full", scan_forward, scan_backward,
        (normal(99, 5, 3), 0.5 * normal(100, 5, 3)), "whole = len(dy)",
        "whole = len(dy) // 64 * 64 if len(dy) > 64 else len(dy)",
        "65 steps", "fla-org/flash-linear-attention#1142"),
    Bug("attention with distances: padded rows are −∞ minus −∞", distance_forward, distance_backward,
        (normal(101, 5, 3), normal(102, 5, 3), normal(103, 5, 2)), "np.exp(np.maximum(hidden, -1e9))",
        "np.exp(hidden - hidden)",
        "129 queries", "pytorch/pytorch#153799"),
    Bug("gain: columns after the last four are left out", gain_forward, gain_backward,
        (normal(104, 5, 8), 1 + 0.2 * normal(105, 8)), "dgain[:n]", "np.pad(dgain[: n // 4 * 4], (0, n % 4))",
        "31 columns"),
)  # fmt: skip
