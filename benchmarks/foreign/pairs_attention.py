"""Attention, positions, dropout, and the Fourier transform."""

import math

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, softmax, wrong


def attend_forward(Q, K, V):
    scale = 1 / math.sqrt(Q.shape[-1])
    P = softmax(Q @ K.swapaxes(-1, -2) * scale)
    return P @ V, (Q, K, V, P, scale)


def attend_backward(dO, cache):
    Q, K, V, P, scale = cache
    dV = P.swapaxes(-1, -2) @ dO
    dP = dO @ V.swapaxes(-1, -2)
    dS = P * (dP - (dP * P).sum(axis=-1, keepdims=True)) * scale
    return dS @ K, dS.swapaxes(-1, -2) @ Q, dV


def causal_attend_forward(q, k, v):
    T, d = q.shape[-2:]
    future = np.triu(np.ones((T, T), dtype=bool), 1)
    s = np.einsum("btd,bsd->bts", q, k) / math.sqrt(d)
    s[:, future] = -np.inf
    p = softmax(s)
    return np.einsum("bts,bsd->btd", p, v), (q, k, v, p, d)


def causal_attend_backward(dy, cache):
    q, k, v, p, d = cache
    dv = np.einsum("bts,btd->bsd", p, dy)
    dp = np.einsum("btd,bsd->bts", dy, v)
    ds = p * (dp - np.einsum("bts,bts->bt", dp, p)[..., None])
    ds = ds / math.sqrt(d)
    return np.einsum("bts,bsd->btd", ds, k), np.einsum("bts,btd->bsd", ds, q), dv


def mha_forward(x, Wqkv, Wo, heads=2):
    B, T, C = x.shape
    D = C // heads
    qkv = (x @ Wqkv).reshape(B, T, 3, heads, D).transpose(2, 0, 3, 1, 4)
    q, k, v = qkv
    a = softmax(q @ k.swapaxes(2, 3) / math.sqrt(D))
    o = (a @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ Wo, (x, Wqkv, Wo, heads, q, k, v, a, o)


def mha_backward(dout, cache):
    x, Wqkv, Wo, heads, q, k, v, a, o = cache
    B, T, C = x.shape
    D = C // heads
    dWo = o.reshape(-1, C).T @ dout.reshape(-1, C)
    do = (dout @ Wo.T).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    dv = a.swapaxes(2, 3) @ do
    da = do @ v.swapaxes(2, 3)
    ds = a * (da - np.sum(da * a, axis=-1, keepdims=True)) / math.sqrt(D)
    dq = ds @ k
    dk = ds.swapaxes(2, 3) @ q
    dqkv = np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * C)
    dW = x.reshape(-1, C).T @ dqkv.reshape(-1, 3 * C)
    return dqkv @ Wqkv.T, dW, dWo


def alibi_forward(q, k, v, slopes):
    T, D = q.shape[1:]
    dist = np.abs(np.arange(T)[:, None] - np.arange(T)[None, :]).astype(v.dtype)
    s = q @ k.transpose(0, 2, 1) / math.sqrt(D) - slopes[:, None, None] * dist
    p = softmax(s)
    return p @ v, (q, k, v, p, dist, D)


def alibi_backward(dy, cache):
    q, k, v, p, dist, D = cache
    dp = dy @ v.transpose(0, 2, 1)
    ds = p * (dp - np.sum(dp * p, axis=-1, keepdims=True))
    dslopes = -np.sum(ds * dist, axis=(1, 2))
    dq = ds @ k / math.sqrt(D)
    dk = ds.transpose(0, 2, 1) @ q / math.sqrt(D)
    return dq, dk, p.transpose(0, 2, 1) @ dy, dslopes


def angles(T, D, dtype):
    inv = 10000.0 ** (-np.arange(0, D, 2) / D)
    t = np.outer(np.arange(1, T + 1), inv)
    return np.cos(t).astype(dtype), np.sin(t).astype(dtype)


def rope_forward(x):
    cos, sin = angles(*x.shape[-2:], x.real.dtype)
    x1, x2 = x[..., ::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., ::2] = x1 * cos - x2 * sin
    y[..., 1::2] = x1 * sin + x2 * cos
    return y, (cos, sin)


def rope_backward(dy, cache):
    cos, sin = cache
    d1, d2 = dy[..., ::2], dy[..., 1::2]
    dx = np.empty_like(dy)
    dx[..., ::2] = d1 * cos + d2 * sin
    dx[..., 1::2] = d2 * cos - d1 * sin
    return dx


def positions_forward(tok, pos):
    C = tok.shape[-1]
    return tok * math.sqrt(C) + pos[: tok.shape[1]], (C, pos.shape)


def positions_backward(dy, cache):
    C, shape = cache
    dpos = np.zeros(shape, dtype=dy.dtype)
    dpos[: dy.shape[1]] = dy.sum(axis=0)
    return dy * math.sqrt(C), dpos


def dropout_forward(x, keep, p=0.25):
    return x * keep / (1 - p), (keep, p)


def dropout_backward(dy, cache):
    keep, p = cache
    return dy * keep / (1 - p)


def attention_dropout_forward(s, v, keep, rate=0.4):
    w = softmax(s)
    wd = w * keep / (1 - rate)
    return wd @ v, (w, wd, v, keep, rate)


def attention_dropout_backward(dy, cache):
    w, wd, v, keep, rate = cache
    dwd = dy @ v.T
    dw = dwd * keep / (1 - rate)
    ds = w * (dw - (dw * w).sum(axis=1, keepdims=True))
    return ds, wd.T @ dy


def rfft_forward(x):
    F = np.fft.rfft(x)
    return np.stack([F.real, F.imag]).astype(x.dtype), x.shape[-1]


def rfft_backward(dy, n):
    k = np.arange(dy.shape[-1])[:, None] * np.arange(n) * (2 * math.pi / n)
    return (dy[0] @ np.cos(k) - dy[1] @ np.sin(k)).astype(dy.dtype)


def fft_forward(re, im):
    F = np.fft.fft(re + 1j * im)
    return (F.real.astype(re.dtype), F.imag.astype(re.dtype)), len(re)


def fft_backward(dF, n):
    g = np.fft.ifft(dF[0] + 1j * dF[1]) * n
    return g.real.astype(dF[0].dtype), g.imag.astype(dF[0].dtype)


def circular_conv_forward(x, h):
    X, H = np.fft.fft(x), np.fft.fft(h)
    return np.real(np.fft.ifft(X * H)).astype(x.dtype), (X, H)


def circular_conv_backward(dy, cache):
    X, H = cache
    G = np.fft.fft(dy)
    dx = np.real(np.fft.ifft(G * np.conj(H)))
    dh = np.real(np.fft.ifft(G * np.conj(X)))
    return dx.astype(dy.dtype), dh.astype(dy.dtype)


KEEP = np.random.default_rng(201).random((4, 5)) > 0.3

PAIRS = (
    foreign("attention", attend_forward, attend_backward, normals(202, (2, 3, 4), (2, 5, 4), (2, 5, 4)),
            wrong("1/√D forgotten", " * scale\n", "\n", "factor"),
            wrong("softmax's own term forgotten", "(dP - (dP * P).sum(axis=-1, keepdims=True))", "dP", "missing term")),
    foreign("causal attention", causal_attend_forward, causal_attend_backward,
            normals(205, (2, 4, 3), (2, 4, 3), (2, 4, 3)),
            wrong("dv by the untransposed weights", '"bts,btd->bsd", p, dy', '"bst,btd->bsd", p, dy', "transposed"),
            wrong("D for √D", "ds / math.sqrt(d)", "ds / d", "factor")),
    foreign("multi-head attention", mha_forward, mha_backward, normals(208, (2, 3, 4), (4, 12), (4, 4)),
            wrong("heads not moved back", "(B, T, heads, D).transpose(0, 2, 1, 3)", "(B, heads, T, D)", "reshaped",
                  "transposed"),
            wrong("first head right alone", "dq = ds @ k", "dq = ds @ k * (np.arange(heads) == 0)[:, None, None]",
                  "wrong place", "zero", "missing factor")),
    foreign("attention with ALiBi", alibi_forward, alibi_backward, normals(211, (2, 4, 3), (2, 4, 3), (2, 4, 3), (2,)),
            wrong("slopes' sign", "-np.sum(ds * dist", "np.sum(ds * dist", "sign")),
    foreign("rotary positions", rope_forward, rope_backward, normal(215, 2, 3, 4),
            wrong("rotated on", "d1 * cos + d2 * sin", "d1 * cos - d2 * sin", "sign", "extra term")),
    foreign("learned positions", positions_forward, positions_backward, normals(216, (2, 3, 4), (5, 4)),
            wrong("batch averaged", "dy.sum(axis=0)", "dy.mean(axis=0)", "summed axis", "factor"),
            wrong("scale forgotten", "dy * math.sqrt(C)", "dy", "factor")),
    foreign("dropout, given mask", dropout_forward, dropout_backward, (normal(218, 4, 5), KEEP),
            wrong("scale forgotten", " / (1 - p)", "", "factor"),
            wrong("mask inverted", "dy * keep", "dy * ~keep", "wrong branch", "wrong factor"),
            options={"p": 0.3}),
    foreign("attention, weights dropped", attention_dropout_forward, attention_dropout_backward,
            (normal(219, 4, 5), normal(220, 5, 3), KEEP),
            wrong("undropped weights for dv", "wd.T @ dy", "w.T @ dy", "wrong factor", "missing factor"),
            wrong("mask forgotten on the way back", "dwd * keep / (1 - rate)", "dwd / (1 - rate)", "missing factor",
                  "wrong branch")),
    foreign("rfft, stacked", rfft_forward, rfft_backward, normal(221, 3, 6),
            wrong("imaginary part's sign", "- dy[1]", "+ dy[1]", "sign")),
    foreign("fft", fft_forward, fft_backward, normals(222, (5,), (5,)),
            wrong("inverse's 1/N kept", " * n", "", "factor")),
    foreign("circular convolution", circular_conv_forward, circular_conv_backward, normals(224, (6,), (6,)),
            wrong("not conjugated", "G * np.conj(H)", "G * H", "reshaped", "wrong factor", "transposed")),
)  # fmt: skip
