"""Attention with rotated, shared, normalised or summed keys."""

import math

import numpy as np

from benchmarks.foreign.pair import foreign, normals, softmax, wrong


def split(y, heads):
    B, T, _ = y.shape
    return y.reshape(B, T, heads, -1).transpose(0, 2, 1, 3)


def rotate(y, angle):
    cos, sin = np.cos(angle), np.sin(angle)
    y1, y2 = np.split(y, 2, axis=-1)
    return np.concatenate((y1 * cos - y2 * sin, y2 * cos + y1 * sin), axis=-1)


def grouped_forward(x, Wq, Wk, Wv, Wo, heads=4, groups=2, window=3, base=700.0):
    B, T, _ = x.shape
    D = Wq.shape[1] // heads
    angle = np.outer(np.arange(T), base ** (-2 * np.arange(D // 2) / D)).astype(x.dtype)
    q, k, v = rotate(split(x @ Wq, heads), angle), rotate(split(x @ Wk, groups), angle), split(x @ Wv, groups)
    gap = np.subtract.outer(np.arange(T), np.arange(T))
    scores = q @ np.repeat(k, heads // groups, axis=1).swapaxes(2, 3) / math.sqrt(D)
    p = softmax(np.where((gap >= 0) & (gap < window), scores, -np.inf))
    o = (p @ np.repeat(v, heads // groups, axis=1)).transpose(0, 2, 1, 3).reshape(B, T, -1)
    return o @ Wo, (x, Wq, Wk, Wv, Wo, q, k, v, p, o, angle, window)


def grouped_backward(dy, cache):
    x, Wq, Wk, Wv, Wo, q, k, v, p, o, angle, window = cache
    B, H, T, D = q.shape
    G = k.shape[1]
    C = x.shape[-1]
    flat = x.reshape(-1, C)
    # output projection
    dflat = dy.reshape(-1, C)
    dWo = o.reshape(-1, H * D).T @ dflat
    do = (dflat @ Wo.T).reshape(B, T, H, D).transpose(0, 2, 1, 3)
    # attention, head by head: several heads share a key
    gap = np.subtract.outer(np.arange(T), np.arange(T))
    seen = (gap >= 0) & (gap < window)
    dq = np.zeros_like(q)
    dk = np.zeros_like(k)
    dv = np.zeros_like(v)
    for h in range(H):
        g = h // (H // G)
        ph = p[:, h]
        dv[:, g] += ph.transpose(0, 2, 1) @ do[:, h]
        dp = do[:, h] @ v[:, g].transpose(0, 2, 1)
        row = np.sum(dp * ph, axis=-1, keepdims=True)
        ds = ph * (dp - row)
        ds = np.where(seen, ds, 0)
        ds = ds / math.sqrt(D)
        dq[:, h] = ds @ k[:, g]
        dk[:, g] += ds.transpose(0, 2, 1) @ q[:, h]
    # rotated back
    cos, sin = np.cos(angle), np.sin(angle)
    dq1, dq2 = np.split(dq, 2, axis=-1)
    dq = np.concatenate((dq1 * cos + dq2 * sin, dq2 * cos - dq1 * sin), axis=-1)
    dk1, dk2 = np.split(dk, 2, axis=-1)
    dk = np.concatenate((dk1 * cos + dk2 * sin, dk2 * cos - dk1 * sin), axis=-1)
    # projections
    dq = dq.transpose(0, 2, 1, 3).reshape(-1, H * D)
    dk = dk.transpose(0, 2, 1, 3).reshape(-1, G * D)
    dv = dv.transpose(0, 2, 1, 3).reshape(-1, G * D)
    dWq = flat.T @ dq
    dWk = flat.T @ dk
    dWv = flat.T @ dv
    dx = dq @ Wq.T
    dx = dx + dk @ Wk.T
    dx = dx + dv @ Wv.T
    return dx.reshape(x.shape), dWq, dWk, dWv, dWo


def cosine_forward(q, k, v, tau, eps=6e-8):
    a = q / np.sqrt((q**2).sum(axis=1) + eps)[:, None]
    b = k / np.sqrt((k**2).sum(axis=1) + eps)[:, None]
    p = softmax(tau * (a @ b.T))
    return p @ v, (q, k, v, tau, a, b, p, eps)


def cosine_backward(dy, cache):
    q, k, v, tau, a, b, p, eps = cache
    dv = p.T @ dy
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    dtau = (ds * (a @ b.T)).sum()
    da = tau * (ds @ b)
    db = tau * (ds.T @ a)
    nq = np.sqrt((q**2).sum(axis=1) + eps)
    nk = np.sqrt((k**2).sum(axis=1) + eps)
    corr = (da * a).sum(axis=1)
    dq = (da - a * corr[:, None]) / nq[:, None]
    dk = (db - b * (db * b).sum(axis=1, keepdims=True)) / nk[:, None]
    return dq, dk, dv, dtau


def linear_forward(q, k, v, eps=9e-8):
    f, g = np.exp(q), np.exp(k)
    S = np.cumsum(g[:, :, None] * v[:, None, :], axis=0)
    z = np.cumsum(g, axis=0)
    y = np.einsum("td,tde->te", f, S) / ((f * z).sum(axis=1) + eps)[:, None]
    return y, (f, g, v, S, z, y, eps)


def linear_backward(dy, cache):
    f, g, v, S, z, y, eps = cache
    den = (f * z).sum(axis=1, keepdims=True) + eps
    dnum = dy / den
    dden = -(dy * y).sum(axis=1, keepdims=True) / den
    df = np.einsum("te,tde->td", dnum, S) + dden * z
    dS = f[:, :, None] * dnum[:, None, :]
    dz = f * dden
    dS = np.cumsum(dS[::-1], axis=0)[::-1]
    dz = np.cumsum(dz[::-1], axis=0)[::-1]
    dg = np.einsum("tde,te->td", dS, v) + dz
    dv = np.einsum("tde,td->te", dS, g)
    return df * f, dg * g, dv


PAIRS = (
    foreign("grouped attention, rotated, in a window", grouped_forward, grouped_backward,
            normals(331, (3, 5, 2), (2, 16), (2, 8), (2, 8), (16, 2)),
            wrong("a shared value keeps its last head alone -> add up with +=", "dv[:, g] += ", "dv[:, g] = ",
                  "not accumulated"),
            wrong("keys rotated on -> rotate back: the signs of sin change", "dk1 * cos + dk2 * sin, dk2 * cos - dk1",
                  "dk1 * cos - dk2 * sin, dk2 * cos + dk1", "sign"),
            wrong("a token's own key masked out -> gap >= 0", "gap >= 0", "gap > 0", "wrong place", "wrong branch",
                  "zero"),
            wrong("cosines and sines kept in float32 -> keep them in float64", "np.cos(angle), np.sin(angle)",
                  "np.float32(np.cos(angle)), np.float32(np.sin(angle))", "wrong constant", "wrong factor")),
    foreign("attention of unit vectors", cosine_forward, cosine_backward,
            (*normals(337, (4, 4), (4, 4), (4, 3)), np.array(2.3)),
            wrong("projection by the corrections of other rows -> corr[:, None]", "corr[:, None]", "corr[None, :]",
                  "transposed", "wrong factor", "summed axis"),
            wrong("eps forgotten in the keys' norm -> add eps under the root", "np.sqrt((k**2).sum(axis=1) + eps)",
                  "np.sqrt((k**2).sum(axis=1))", "wrong constant", "missing term")),
    foreign("linear attention", linear_forward, linear_backward, normals(341, (5, 3), (5, 3), (5, 2)),
            wrong("eps forgotten in the denominator -> add eps", ".sum(axis=1, keepdims=True) + eps",
                  ".sum(axis=1, keepdims=True)", "wrong constant", "missing term"),
            wrong("denominator's gradient summed over the past -> sum it over the future",
                  "np.cumsum(dz[::-1], axis=0)[::-1]", "np.cumsum(dz, axis=0)", "reshaped", "summed axis")),
)  # fmt: skip
