"""A mixture of experts, and a convolution with its norm."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, positive, softmax, wrong
from benchmarks.foreign.pairs_activations import sig


def experts_forward(x, Wg, W1, b1, W2, top=2, coef=0.3, eps=3e-8):
    p = softmax(x @ Wg)
    keep = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(keep, np.argsort(-p, axis=1)[:, :top], True, axis=1)
    gate = np.where(keep, p, 0) / (np.where(keep, p, 0).sum(axis=1, keepdims=True) + eps)
    y, saved = np.zeros_like(x), []
    for e in range(len(W1)):
        rows = np.flatnonzero(keep[:, e])
        h = np.tanh(x[rows] @ W1[e] + b1[e])
        out = h @ W2[e]
        y[rows] += gate[rows, e][:, None] * out
        saved.append((rows, h, out))
    share = keep.mean(axis=0).astype(x.dtype)
    balance = coef * len(W1) * np.sum(share * p.mean(axis=0))
    return (y, balance), (x, Wg, W1, W2, p, keep, gate, saved, share, coef, eps)


def experts_backward(dout, cache):
    dy, dbalance = dout
    x, Wg, W1, W2, p, keep, gate, saved, share, coef, eps = cache
    N, E = p.shape
    dx = np.zeros_like(x)
    dW1 = np.zeros_like(W1)
    db1 = np.zeros_like(W1[:, 0])
    dW2 = np.zeros_like(W2)
    dgate = np.zeros_like(p)
    # experts, each for its own tokens
    for e in range(E):
        rows, h, out = saved[e]
        g = gate[rows, e][:, None]
        mine = x[rows]
        dmine = dy[rows]
        dgate[rows, e] = (dmine * out).sum(axis=1)
        de = dmine * g
        dW2[e] = h.T @ de
        dh = de @ W2[e].T
        da = dh * (1 - h**2)
        dW1[e] = mine.T @ da
        db1[e] = da.sum(axis=0)
        dx[rows] += da @ W1[e].T
    # gates, which sum to one
    kept = np.where(keep, p, 0)
    total = kept.sum(axis=1, keepdims=True) + eps
    dot = (dgate * gate).sum(axis=1, keepdims=True)
    dkept = (dgate - dot) / total
    dp = np.zeros_like(p)
    dp[keep] = dkept[keep]
    # balance: the shares are constants
    dmean = dbalance * coef * E * share
    dp = dp + dmean / N
    # router, a softmax
    inner = (dp * p).sum(axis=1, keepdims=True)
    dlogits = p * (dp - inner)
    dWg = x.T @ dlogits
    drouted = dlogits @ Wg.T
    dx = dx + drouted
    return dx, dWg, dW1, db1, dW2


def conv_norm_forward(x, w, b, gamma, beta, stride=2, pad=1, groups=2, eps=3e-8):
    B, _, H, W = x.shape
    kh, kw = w.shape[2:]
    xp = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    Ho, Wo = (H + 2 * pad - kh) // stride + 1, (W + 2 * pad - kw) // stride + 1
    y = np.zeros((B, len(w), Ho, Wo), dtype=x.dtype) + b[:, None, None]
    for i in range(kh):
        for j in range(kw):
            patch = xp[:, :, i : i + stride * Ho : stride, j : j + stride * Wo : stride]
            y += np.einsum("bchw,oc->bohw", patch, w[:, :, i, j])
    z = y.reshape(B, groups, -1)
    zh = (z - z.mean(axis=2, keepdims=True)) / np.sqrt(z.var(axis=2, keepdims=True) + eps)
    n = zh.reshape(y.shape) * gamma[:, None, None] + beta[:, None, None]
    return n * sig(n), (x.shape, xp, w, gamma, stride, pad, eps, z, zh, n)


def conv_norm_backward(dout, cache):
    shape, xp, w, gamma, stride, pad, eps, z, zh, n = cache
    H, W = shape[2], shape[3]
    kh, kw = w.shape[2:]
    Ho, Wo = n.shape[2:]
    # SiLU
    s = sig(n)
    slope = s + n * s * (1 - s)
    dn = dout * slope
    # group norm
    dbeta = dn.sum(axis=(0, 2, 3))
    dgamma = (dn * zh.reshape(n.shape)).sum(axis=(0, 2, 3))
    dzh = dn * gamma[:, None, None]
    dzh = dzh.reshape(z.shape)
    # its three terms
    std = np.sqrt(z.var(axis=2, keepdims=True) + eps)
    along_one = dzh.mean(axis=2, keepdims=True)
    along_zh = (dzh * zh).mean(axis=2, keepdims=True)
    dz = dzh - along_one
    dz = dz - zh * along_zh
    dz = dz / std
    dy = dz.reshape(n.shape)
    # convolution
    db = dy.sum(axis=(0, 2, 3))
    dw = np.zeros_like(w)
    dxp = np.zeros_like(xp)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i, i + stride * Ho, stride)
            cols = slice(j, j + stride * Wo, stride)
            patch = xp[:, :, rows, cols]
            dw[:, :, i, j] = np.einsum("bohw,bchw->oc", dy, patch)
            dxp[:, :, rows, cols] += np.einsum("bohw,oc->bchw", dy, w[:, :, i, j])
    # without the padding
    top, left = pad, pad
    bottom = top + H
    right = left + W
    dx = dxp[:, :, top:bottom, left:right]
    return dx, dw, db, dgamma, dbeta


PAIRS = (
    foreign("mixture of experts", experts_forward, experts_backward,
            normals(391, (6, 3), (3, 4), (4, 3, 2), (4, 2), (4, 2, 3)),
            wrong("eps forgotten in the sum of the gates -> add eps", ".sum(axis=1, keepdims=True) + eps",
                  ".sum(axis=1, keepdims=True)", "wrong constant", "missing term"),
            wrong("biases of the experts never written -> db1[e] = da.sum(axis=0)",
                  "        db1[e] = da.sum(axis=0)\n", "", "zero"),
            wrong("balance not averaged over tokens -> divide by N", "dmean / N", "dmean", "factor", "summed axis"),
            wrong("gates' sum held constant, dot never used -> subtract dot", "(dgate - dot)", "dgate",
                  "missing term")),
    foreign("convolution, group norm, SiLU", conv_norm_forward, conv_norm_backward,
            (normal(401, 2, 3, 5, 4), 0.3 * normal(402, 4, 3, 3, 3), normal(403, 4), positive(404, 4), normal(405, 4)),
            wrong("eps forgotten in the deviation -> add eps under the root", "(axis=2, keepdims=True) + eps)",
                  "(axis=2, keepdims=True))", "wrong constant", "missing term"),
            wrong("kernel's rows and columns exchanged -> w[:, :, i, j]", "dy, w[:, :, i, j]", "dy, w[:, :, j, i]",
                  "transposed"),
            wrong("overlapping patches overwrite each other -> add up with +=", "dxp[:, :, rows, cols] += ",
                  "dxp[:, :, rows, cols] = ", "not accumulated"),
            wrong("padding cut off at the far end alone -> start at pad", "top, left = pad, pad", "top, left = 0, 0",
                  "reshaped", "wrong place")),
)  # fmt: skip
