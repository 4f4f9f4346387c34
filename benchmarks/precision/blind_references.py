"""What the kernels of blind.py should compute, in elementary operations that run in float64 and complex128."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def mish(x):
    e = np.exp(x)
    n = (1 + e) ** 2
    return x * (n - 1) / (n + 1), (x, e, n)


def mish_backward(dy, cache):
    x, e, n = cache
    return (dy * ((n - 1) / (n + 1) + x * 4 * e * (1 + e) / (n + 1) ** 2),)


def gem(x, p):
    """The generalised mean over axis 1, with one power for each channel: x (B, N, C), p (C,)."""
    m = np.exp(p * np.log(x)).mean(axis=1)
    y = np.exp(np.log(m) / p)
    return y, (x, p, m, y)


def gem_backward(dy, cache):
    x, p, m, y = cache
    log = np.log(x)
    weight = np.exp(p * log) / (m[:, None] * x.shape[1])
    dlog = dy * y
    dp = (dlog * ((weight * log).sum(axis=1) / p - np.log(m) / p**2)).sum(axis=0)
    return dlog[:, None] * weight / x, dp


def focal(logits, labels):
    """The mean of -(1-p)² log p, with p the probability of the label."""
    q = softmax(logits)
    p = q[np.arange(len(labels)), labels]
    return -((1 - p) ** 2 * np.log(p)).mean(), (q, p, labels)


def focal_backward(dy, cache):
    q, p, labels = cache
    dp = dy / len(labels) * (2 * (1 - p) * np.log(p) - (1 - p) ** 2 / p)
    chosen = np.eye(q.shape[1])[labels]
    return ((dp * p)[:, None] * (chosen - q),)


def mgu(x, h, wf, uf, wc, uc):
    """A minimal gated unit: one gate that both forgets and resets."""
    f = sigmoid(x @ wf + h @ uf)
    c = np.tanh(x @ wc + (f * h) @ uc)
    return (1 - f) * h + f * c, (x, h, wf, uf, wc, uc, f, c)


def mgu_backward(dy, cache):
    x, h, wf, uf, wc, uc, f, c = cache
    dc = dy * f * (1 - c * c)
    dfh = dc @ uc.T
    df = (dy * (c - h) + dfh * h) * f * (1 - f)
    dh = dy * (1 - f) + dfh * f + df @ uf.T
    return dc @ wc.T + df @ wf.T, dh, x.T @ df, h.T @ df, x.T @ dc, (f * h).T @ dc


def low_rank(x, z, a, b, c):
    u, v = x @ a, z @ b
    return (u * v) @ c, (x, z, a, b, c, u, v)


def low_rank_backward(dy, cache):
    x, z, a, b, c, u, v = cache
    g = dy @ c.T
    return (g * v) @ a.T, (g * u) @ b.T, x.T @ (g * v), z.T @ (g * u), (u * v).T @ dy


def attention(bias, scale):
    """Attention of heads (H, T, D) whose scores get this bias, -inf where a key is hidden."""
    weight = np.exp(bias)

    def forward(q, k, v):
        e = np.exp(q @ np.swapaxes(k, 1, 2) * scale) * weight
        p = e / e.sum(axis=-1, keepdims=True)
        return p @ v, (q, k, v, p)

    def backward(dy, cache):
        q, k, v, p = cache
        dp = dy @ np.swapaxes(v, 1, 2)
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
        return ds @ k, np.swapaxes(ds, 1, 2) @ q, np.swapaxes(p, 1, 2) @ dy

    return forward, backward


def scan(x, a):
    """h_t = a_t h_{t-1} + x_t along axis 0, from h = 0."""
    h, states = x[0], [x[0]]
    for t in range(1, len(x)):
        h = a[t] * h + x[t]
        states.append(h)
    return np.stack(states), (a, np.stack(states))


def scan_backward(dy, cache):
    a, states = cache
    dx, da = np.zeros_like(states), np.zeros_like(states)
    g = 0 * dy[0]
    for t in range(len(a) - 1, -1, -1):
        g = dy[t] + g
        dx[t] = g
        da[t] = g * states[t - 1] if t else 0 * g
        g = g * a[t]
    return dx, da


def cosine(x, w):
    nx, nw = np.sqrt((x * x).sum(axis=-1, keepdims=True)), np.sqrt((w * w).sum(axis=-1, keepdims=True))
    u, v = x / nx, w / nw
    return (u * v).sum(axis=-1), (u, v, nx, nw)


def cosine_backward(dy, cache):
    u, v, nx, nw = cache
    c, g = (u * v).sum(axis=-1, keepdims=True), dy[..., None]
    return g * (v - c * u) / nx, g * (u - c * v) / nw


def group_norm(groups, eps=1e-5):
    """Normalisation of x (N, C, L) over groups of channels and all positions, with gain and shift per channel."""

    def forward(x, gamma, beta):
        grouped = x.reshape(len(x), groups, -1)
        centred = grouped - grouped.mean(axis=-1, keepdims=True)
        r = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
        hat = (centred * r).reshape(x.shape)
        return gamma[:, None] * hat + beta[:, None], (hat, r, gamma)

    def backward(dy, cache):
        hat, r, gamma = cache
        g = (dy * gamma[:, None]).reshape(len(dy), groups, -1)
        h = hat.reshape(g.shape)
        dx = r * (g - g.mean(axis=-1, keepdims=True) - h * (g * h).mean(axis=-1, keepdims=True))
        return dx.reshape(dy.shape), (dy * hat).sum(axis=(0, 2)), dy.sum(axis=(0, 2))

    return forward, backward


def causal_taps(x, w):
    """A causal convolution of each channel with its own taps: x (B, T, C), w (K, C)."""
    padded = np.concatenate([np.zeros_like(x[:, : len(w) - 1]), x], axis=1)
    return sum(w[k] * padded[:, k : k + x.shape[1]] for k in range(len(w))), (padded, w)


def causal_taps_backward(dy, cache):
    padded, w = cache
    steps = dy.shape[1]
    dpadded = 0 * padded
    for k in range(len(w)):
        dpadded[:, k : k + steps] += w[k] * dy
    dw = np.stack([(dy * padded[:, k : k + steps]).sum(axis=(0, 1)) for k in range(len(w))])
    return dpadded[:, len(w) - 1 :], dw


def weight_norm(eps):
    """x @ w with w = g v / (|v| + eps), a norm for each column of v."""

    def forward(x, v, g):
        n = np.sqrt((v * v).sum(axis=0))
        w = g * v / (n + eps)
        return x @ w, (x, v, g, n, w)

    def backward(dy, cache):
        x, v, g, n, w = cache
        dw = x.T @ dy
        along = (dw * v).sum(axis=0)
        dv = g / (n + eps) * dw - g * v * along / (n * (n + eps) ** 2)
        return dy @ w.T, dv, along / (n + eps)

    return forward, backward


def hashed(first, second):
    """Token n is p_n0 table[first] + p_n1 table[second], with two hashes of its id."""

    def forward(ids, table, p):
        one, two = table[first(ids)], table[second(ids)]
        return p[:, :1] * one + p[:, 1:] * two, (ids, table, p)

    def backward(dy, cache):
        ids, table, p = cache
        eye = np.eye(len(table))
        one, two = eye[first(ids)], eye[second(ids)]
        dtable = one.T @ (p[:, :1] * dy) + two.T @ (p[:, 1:] * dy)
        return dtable, np.stack([(dy * (one @ table)).sum(axis=1), (dy * (two @ table)).sum(axis=1)], axis=1)

    return forward, backward


def elman(x, h0, w, u):
    """h_t = tanh(x_t w + h_{t-1} u): x (T, B, C), h0 (B, H)."""
    states = [h0]
    for step in x:
        states.append(np.tanh(step @ w + states[-1] @ u))
    return np.stack(states[1:]), (x, w, u, states)


def elman_backward(dy, cache):
    x, w, u, states = cache
    g, dx, dw, du = 0 * dy[0], [], 0, 0
    for t in range(len(x) - 1, -1, -1):
        da = (dy[t] + g) * (1 - states[t + 1] ** 2)
        dw, du, g = dw + x[t].T @ da, du + states[t].T @ da, da @ u.T
        dx.insert(0, da @ w.T)
    return np.stack(dx), g, dw, du
