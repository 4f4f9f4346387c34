"""Right kernels in low precision, written by somebody who has not seen how the check judges them."""

import numpy as np

from benchmarks.precision import blind_references as references
from benchmarks.precision.kernel import bfloat16, right, tf32_product
from benchmarks.precision.kernel import float16 as half
from benchmarks.precision.kernel import float32 as single

try:
    import torch

    import npformer as npf
except ImportError:
    torch = None


def logistic(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def mish_forward(x):
    soft = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    t = np.tanh(soft)
    return x * t, (x, t)


def mish_backward(dy, cache):
    x, t = cache
    return (dy * (t + x * (1 - t * t) * logistic(x)),)


def gem_forward(x, p):
    powers = x**p
    mean = powers.mean(axis=1)
    return mean ** (1 / p), (x, p, powers, mean)


def gem_backward(dy, cache):
    x, p, powers, mean = cache
    root = mean ** (1 / p)
    dmean = dy * root / (p * mean)
    dx = dmean[:, None] * p * powers / x / x.shape[1]
    by_power = dmean * (powers * np.log(x)).mean(axis=1)
    by_root = -dy * root * np.log(mean) / (p * p)
    return dx, (by_power + by_root).sum(axis=0)


def focal_forward(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_q = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    log_p = log_q[np.arange(len(labels)), labels]
    miss = -np.expm1(log_p)
    return np.asarray(-np.mean(miss * miss * log_p)), (log_q, log_p, miss, labels)


def focal_backward(dy, cache):
    log_q, log_p, miss, labels = cache
    q, count = np.exp(log_q), len(labels)
    dlog_p = miss * (2 * np.exp(log_p) * log_p - miss) * (dy / count)
    dlogits = -q * dlog_p[:, None]
    dlogits[np.arange(count), labels] = dlog_p * miss
    return (dlogits,)


def mgu_forward(x, h, wf, uf, wc, uc):
    f = logistic(tf32_product(x, wf) + tf32_product(h, uf))
    c = np.tanh(tf32_product(x, wc) + tf32_product(f * h, uc))
    return h + f * (c - h), (x, h, wf, uf, wc, uc, f, c)


def mgu_backward(dy, cache):
    x, h, wf, uf, wc, uc, f, c = cache
    dc = dy * f * (1 - c * c)
    dkept = tf32_product(dc, uc.T)
    df = (dy * (c - h) + dkept * h) * f * (1 - f)
    dx = tf32_product(np.hstack([df, dc]), np.vstack([wf.T, wc.T]))
    dh = dy * (1 - f) + dkept * f + tf32_product(df, uf.T)
    return dx, dh, tf32_product(x.T, df), tf32_product(h.T, df), tf32_product(x.T, dc), tf32_product((f * h).T, dc)


def low_rank_forward(x, z, a, b, c):
    u, v = tf32_product(x, a), tf32_product(z, b)
    return tf32_product(u * v, c), (x, z, a, b, c, u, v)


def low_rank_backward(dy, cache):
    x, z, a, b, c, u, v = cache
    joint = tf32_product(dy, c.T)
    du, dv = joint * v, joint * u
    dc = tf32_product((u * v).T, dy)
    return tf32_product(du, a.T), tf32_product(dv, b.T), tf32_product(x.T, du), tf32_product(z.T, dv), dc


STEPS = 6
DISTANCE = np.arange(STEPS)[:, None] - np.arange(STEPS)
ALIBI = np.where(DISTANCE >= 0, -np.array([0.25, 0.0625])[:, None, None] * DISTANCE, -np.inf)


def alibi_forward(q, k, v):
    scores = q @ k.transpose(0, 2, 1) * 0.5 + ALIBI.astype(q.dtype)
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(axis=-1, keepdims=True)
    y = bfloat16(bfloat16(e) @ v / total)  # the weights go to the tensor cores in bfloat16
    return y, (q, k, v, y, top + np.log(total))


def alibi_backward(dy, cache):
    q, k, v, y, lse = cache
    p = np.exp(q @ k.transpose(0, 2, 1) * 0.5 + ALIBI.astype(q.dtype) - lse)
    delta = (dy * y).sum(axis=-1, keepdims=True)  # of the stored y, as FlashAttention does
    ds = bfloat16(p * (dy @ v.transpose(0, 2, 1) - delta))
    dv = bfloat16(p).transpose(0, 2, 1) @ dy
    return bfloat16(ds @ k * 0.5), bfloat16(ds.transpose(0, 2, 1) @ q * 0.5), bfloat16(dv)


def scan_forward(x, a):
    h, states = np.zeros_like(x[0]), np.empty_like(x)
    for t in range(len(x)):
        h = a[t] * h + x[t]
        states[t] = bfloat16(h)
    return states, (a, states)


def scan_backward(dy, cache):
    a, states = cache
    dx, da, carry = np.empty_like(dy), np.zeros_like(dy), np.zeros_like(dy[0])
    for t in reversed(range(len(dy))):
        g = dy[t] + carry
        dx[t] = bfloat16(g)
        if t > 0:
            da[t] = bfloat16(g * states[t - 1])
        carry = a[t] * g
    return dx, da


def groups_forward(x, gamma, beta):
    wide = single(x).reshape(len(x), 2, -1)
    mean = wide.mean(axis=2, keepdims=True)
    rstd = 1 / np.sqrt(((wide - mean) ** 2).mean(axis=2, keepdims=True) + single(1e-5))
    hat = ((wide - mean) * rstd).reshape(x.shape)
    return half(hat * single(gamma)[:, None] + single(beta)[:, None]), (x, gamma, mean, rstd)


def groups_backward(dy, cache):
    x, gamma, mean, rstd = cache
    dy, gamma = single(dy), single(gamma)
    hat = (single(x).reshape(len(x), 2, -1) - mean) * rstd
    dhat = (dy * gamma[:, None]).reshape(hat.shape)
    inner = (dhat * hat).mean(axis=2, keepdims=True)
    dx = rstd * (dhat - dhat.mean(axis=2, keepdims=True) - inner * hat)
    return half(dx.reshape(x.shape)), half((dy * hat.reshape(x.shape)).sum(axis=(0, 2))), half(dy.sum(axis=(0, 2)))


def taps_forward(x, w):
    y, taps, steps = np.zeros_like(x), len(w), x.shape[1]
    for k in range(taps):
        late = taps - 1 - k
        y[:, late:] = half(y[:, late:] + half(w[k] * x[:, : steps - late]))
    return y, (x, w)


def taps_backward(dy, cache):
    x, w = cache
    dx, dw, steps = np.zeros_like(x), np.zeros_like(w), x.shape[1]
    for k in range(len(w)):
        late = len(w) - 1 - k
        dx[:, : steps - late] = half(dx[:, : steps - late] + half(w[k] * dy[:, late:]))
        for row in range(len(x)):
            for t in range(late, steps):
                dw[k] = half(dw[k] + half(dy[row, t] * x[row, t - late]))
    return dx, dw


def cosine_body(x, w):
    return torch.nn.functional.cosine_similarity(x, w, dim=-1)


def normal(*shapes):
    """Draws one standard normal array of every shape."""
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


def draw_gem(rng):
    return rng.uniform(0.2, 3, size=(3, 5, 4)), rng.uniform(2, 4, size=4)


def draw_focal(rng):
    return 1.5 * rng.normal(size=(6, 5)), rng.integers(0, 5, size=6)


def draw_mgu(rng):
    return tuple(rng.normal(size=s) / (1 if s[0] == 4 else 2) for s in ((4, 5), (4, 3), (5, 3), (3, 3), (5, 3), (3, 3)))


def draw_scan(rng):
    return rng.normal(size=(7, 4)), rng.uniform(0.5, 0.98, size=(7, 4))


r = references
MISH, GEM, FOCAL = (r.mish, r.mish_backward), (r.gem, r.gem_backward), (r.focal, r.focal_backward)
MGU, LOW_RANK, SCAN = (r.mgu, r.mgu_backward), (r.low_rank, r.low_rank_backward), (r.scan, r.scan_backward)
TAPS, COSINE = (r.causal_taps, r.causal_taps_backward), (r.cosine, r.cosine_backward)
ALIBI_REFERENCE, GROUPS = r.attention(ALIBI, 0.5), r.group_norm(2)
HEADS = normal((2, STEPS, 4), (2, STEPS, 4), (2, STEPS, 4))

KERNELS = (
    right("mish", "float32", (mish_forward, mish_backward), MISH, normal((4, 6))),
    right("generalised-mean", "float32", (gem_forward, gem_backward), GEM, draw_gem),
    right("focal-loss", "float32", (focal_forward, focal_backward), FOCAL, draw_focal),
    right("minimal-gated-unit", "tf32", (mgu_forward, mgu_backward), MGU, draw_mgu),
    right(
        "low-rank-bilinear",
        "tf32",
        (low_rank_forward, low_rank_backward),
        LOW_RANK,
        normal((5, 6), (5, 4), (6, 3), (4, 3), (3, 5)),
    ),
    right("alibi-attention", "bfloat16", (alibi_forward, alibi_backward), ALIBI_REFERENCE, HEADS),
    right("linear-recurrence", "bfloat16", (scan_forward, scan_backward), SCAN, draw_scan),
    right("group-norm", "float16", (groups_forward, groups_backward), GROUPS, normal((2, 4, 5), 4, 4)),
    right(
        "causal-taps", "float16", (taps_forward, taps_backward), TAPS, normal((2, 6, 3), (4, 3)), accumulate="float16"
    ),
)

#: What PyTorch differentiates, without the casts.
BODIES = {"torch-cosine": cosine_body}
if torch is not None:
    TORCH_COSINE = npf.from_torch(lambda x, w: cosine_body(x.bfloat16(), w.bfloat16()).float())
    KERNELS += (right("torch-cosine", "bfloat16", TORCH_COSINE, COSINE, normal((4, 8), (4, 8))),)
