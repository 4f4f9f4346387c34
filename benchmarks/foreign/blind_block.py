"""A transformer's block, and its head with the loss."""

import math

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, positive, softmax, wrong
from benchmarks.foreign.pairs_activations import sig


def block_forward(x, g1, b1, Wqkv, Wo, g2, Wg, Wu, Wd, heads=2, eps=2e-8):
    B, T, C = x.shape
    r1 = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    xh = (x - x.mean(axis=-1, keepdims=True)) * r1
    a = xh * g1 + b1
    q, k, v = (a @ Wqkv).reshape(B, T, 3, heads, C // heads).transpose(2, 0, 3, 1, 4)
    p = softmax(q @ k.swapaxes(2, 3) / math.sqrt(C // heads))
    o = (p @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    x1 = x + o @ Wo
    r2 = 1 / np.sqrt((x1**2).mean(axis=-1, keepdims=True) + eps)
    m = x1 * r2 * g2
    u, w = m @ Wg, m @ Wu
    hidden = u * sig(u) * w
    cache = (x, g1, Wqkv, Wo, g2, Wg, Wu, Wd, eps, r1, xh, a, q, k, v, p, o, x1, r2, m, u, w, hidden)
    return x1 + hidden @ Wd, cache


def block_backward(dy, cache):
    x, g1, Wqkv, Wo, g2, Wg, Wu, Wd, eps, r1, xh, a, q, k, v, p, o, x1, r2, m, u, w, hidden = cache
    B, T, C = x.shape
    heads, D = q.shape[1], q.shape[3]
    F = u.shape[-1]
    # gated MLP
    dhidden = dy @ Wd.T
    dWd = hidden.reshape(-1, F).T @ dy.reshape(-1, C)
    s = sig(u)
    dw = dhidden * u * s
    du = dhidden * w * s * (1 + u * (1 - s))
    rows = m.reshape(-1, C)
    dWg = rows.T @ du.reshape(-1, F)
    dWu = rows.T @ dw.reshape(-1, F)
    dm = du @ Wg.T + dw @ Wu.T
    # RMS norm
    dg2 = (dm * x1 * r2).sum(axis=(0, 1))
    dn = dm * g2
    corr = (dn * x1).mean(axis=-1, keepdims=True)
    rms = np.sqrt((x1**2).mean(axis=-1, keepdims=True) + eps)
    dx1 = dn / rms - x1 * corr / rms**3
    dx1 = dx1 + dy
    # attention
    dWo = o.reshape(-1, C).T @ dx1.reshape(-1, C)
    do = (dx1 @ Wo.T).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    dv = p.swapaxes(2, 3) @ do
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    ds = ds / math.sqrt(D)
    dq = ds @ k
    dk = ds.swapaxes(2, 3) @ q
    dqkv = np.stack((dq, dk, dv)).transpose(1, 3, 0, 2, 4)
    dqkv = dqkv.reshape(-1, 3 * C)
    dWqkv = a.reshape(-1, C).T @ dqkv
    da = (dqkv @ Wqkv.T).reshape(B, T, C)
    # layer norm
    dg1 = (da * xh).sum(axis=(0, 1))
    db1 = da.sum(axis=(0, 1))
    dxh = da * g1
    along_one = dxh.mean(axis=-1, keepdims=True)
    along_xh = (dxh * xh).mean(axis=-1, keepdims=True)
    dx = r1 * (dxh - along_one - xh * along_xh)
    dx = dx + dx1
    return dx, dg1, db1, dWqkv, dWo, dg2, dWg, dWu, dWd


def head_forward(h, gain, E, labels, smooth=0.15, zcoef=0.02, cap=3.5, ignore=-1, eps=2e-3):
    r = 1 / np.sqrt((h**2).mean(axis=1, keepdims=True) + eps)
    n = h * r * gain
    t = np.tanh(n @ E.T / cap)
    logits = cap * t
    top = logits.max(axis=1, keepdims=True)
    lse = top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    logp = logits - lse
    keep = labels != ignore
    picked = logp[np.arange(len(h)), np.where(keep, labels, 0)]
    nll = -(1 - smooth) * picked - smooth * logp.mean(axis=1)
    losses = np.where(keep, nll + zcoef * lse[:, 0] ** 2, 0)
    return losses.sum() / int(keep.sum()), (h, gain, E, labels, keep, r, n, t, logits, lse, smooth, zcoef)


def head_backward(dloss, cache):
    h, gain, E, labels, keep, r, n, t, logits, lse, smooth, zcoef = cache
    N, V = logits.shape
    p = np.exp(logits - lse)
    # smoothed targets
    target = np.full_like(p, smooth / V)
    target[np.arange(N), np.where(keep, labels, 0)] += 1 - smooth
    dlogits = p - target
    # z-loss
    dz = 2 * zcoef * lse * p
    dlogits = dlogits + dz
    dlogits = np.where(keep[:, None], dlogits, 0)
    dlogits = dlogits * dloss / int(keep.sum())
    # soft cap
    draw = dlogits * (1 - t**2)
    dE = draw.T @ n
    dn = draw @ E
    # RMS norm
    dgain = (dn * h * r).sum(axis=0)
    dhat = dn * gain
    corr = (dhat * h).mean(axis=1, keepdims=True)
    dh = r * dhat - h * corr * r**3
    return dh, dgain, dE


LABELS = np.array([3, -1, 0, 5, 3])

PAIRS = (
    foreign("transformer block", block_forward, block_backward,
            (normal(351, 3, 5, 4), positive(352, 4), normal(353, 4), *normals(354, (4, 12), (4, 4)), positive(356, 4),
             *normals(357, (4, 5), (4, 5), (5, 4))),
            wrong("second residual forgotten -> add dy to dx1", "    dx1 = dx1 + dy\n", "", "missing term"),
            wrong("second norm corrected by the block's input -> use x1, its own input", "corr = (dn * x1)",
                  "corr = (dn * x)", "wrong factor"),
            wrong("keys and values exchanged in the stack -> stack dq, dk, dv", "(dq, dk, dv)", "(dq, dv, dk)",
                  "swapped outputs", "reshaped", "wrong factor"),
            wrong("eps added to the root mean square -> add it under the root", "axis=-1, keepdims=True) + eps)",
                  "axis=-1, keepdims=True)) + eps", "wrong constant", "wrong factor", "extra term")),
    foreign("head with a soft cap, smoothing and z-loss", head_forward, head_backward,
            (normal(361, 5, 4), positive(362, 4), normal(363, 6, 4), LABELS),
            wrong("z-loss computed and never added -> add dz", "    dlogits = dlogits + dz\n", "", "missing term"),
            wrong("smoothing spread over V - 1 classes -> over V", "smooth / V", "smooth / (V - 1)", "wrong constant",
                  "factor"),
            wrong("slope of the soft cap with tanh not squared -> 1 - t**2", "(1 - t**2)", "(1 - t)", "wrong factor")),
)  # fmt: skip
