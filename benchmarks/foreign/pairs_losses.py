"""Softmax and losses."""

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, normals, positive, softmax, wrong


def softmax_forward(x):
    p = softmax(x)
    return p, p


def softmax_backward(dp, p):
    return p * (dp - (dp * p).sum(axis=-1, keepdims=True))


def log_softmax_forward(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    out = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return out, out


def log_softmax_backward(grad, out):
    return grad - np.exp(out) * grad.sum(axis=1, keepdims=True)


def logsumexp_fwd(x):
    m = np.amax(x, axis=0, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(axis=0)
    return np.log(s) + m[0], (e, s, x, m)


def logsumexp_bwd(dy, cache):
    e, s = cache[:2]
    return dy * e / s


def temperature_softmax_forward(x, tau):
    p = softmax(x / tau)
    return p, (x, tau, p)


def temperature_softmax_backward(g, cache):
    x, tau, p = cache
    dz = p * (g - np.sum(g * p, axis=-1, keepdims=True))
    return dz / tau, -np.sum(dz * x) / tau**2


def smoothed_ce_forward(logits, target, eps=0.1):
    B, V = logits.shape
    z = logits - logits.max(1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    q = np.full((B, V), eps / V).astype(logits.dtype)
    q[np.arange(B), target] += 1 - eps
    return -(q * logp).sum() / B, (q, logp)


def smoothed_ce_backward(dloss, cache):
    q, logp = cache
    p = np.exp(logp)
    return dloss * (p - q) / len(q)


def masked_ce_forward(scores, labels, pad=0):
    keep = labels != pad
    p = softmax(scores)
    b, t = np.indices(labels.shape)
    nll = -np.log(p[b, t, labels])
    return (nll * keep).sum() / int(keep.sum()), (p, labels, keep)


def masked_ce_backward(dy, cache):
    p, labels, keep = cache
    d = p.copy()
    b, t = np.indices(labels.shape)
    d[b, t, labels] -= 1
    d *= keep[..., None]
    return d * dy / int(keep.sum())


def hinge_forward(scores, y, margin=1.0):
    n = np.arange(len(y))
    m = scores - scores[n, y][:, None] + margin
    m[n, y] = 0
    return np.maximum(0, m).sum() / len(y), (m, y)


def hinge_backward(dloss, cache):
    m, y = cache
    d = (m > 0).astype(m.dtype)
    d[np.arange(len(y)), y] -= d.sum(axis=1)
    return d * dloss / len(y)


def huber_forward(pred, target, delta=0.8):
    r = pred - target
    a = np.abs(r)
    return np.mean(np.where(a <= delta, 0.5 * r**2, delta * (a - 0.5 * delta))), (r, delta)


def huber_backward(dl, cache):
    r, delta = cache
    g = np.where(np.abs(r) <= delta, r, delta * np.sign(r)) * dl / r.size
    return g, -g


def kl_forward(p, log_q):
    return np.sum(p * (np.log(p) - log_q)) / p.shape[0], (p, log_q)


def kl_backward(dy, cache):
    p, log_q = cache
    n = p.shape[0]
    return dy * (np.log(p) - log_q + 1) / n, -dy * p / n


def bce_logits_forward(x, t):
    loss = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
    return loss.mean(), (x, t)


def bce_logits_backward(dy, cache):
    x, t = cache
    p = 1 / (1 + np.exp(-x))
    return dy * (p - t) / x.size, -dy * x / x.size


def focal_forward(x, t, gamma=2.0):
    p = 1 / (1 + np.exp(-x))
    pt = np.where(t, p, 1 - p)
    return -((1 - pt) ** gamma * np.log(pt)).mean(), (t, p, pt, gamma)


def focal_backward(dy, cache):
    t, p, pt, gamma = cache
    dpt = gamma * (1 - pt) ** (gamma - 1) * np.log(pt) - (1 - pt) ** gamma / pt
    dpt = dpt * dy / pt.size
    return np.where(t, dpt, -dpt) * p * (1 - p)


def cosine_loss_forward(a, b):
    na = np.linalg.norm(a, axis=1)
    nb = np.linalg.norm(b, axis=1)
    c = (a * b).sum(axis=1) / (na * nb)
    return 1 - c, (a, b, na, nb, c)


def cosine_loss_backward(dy, cache):
    a, b, na, nb, c = (v if v.ndim == 2 else v[:, None] for v in cache)
    dc = -dy[:, None]
    da = dc * (b / (na * nb) - c * a / na**2)
    db = dc * (a / (na * nb) - c * b / nb**2)
    return da, db


def triplet_forward(anchor, pos, neg, margin=0.5):
    dp = np.sqrt(((anchor - pos) ** 2).sum(axis=1))
    dn = np.sqrt(((anchor - neg) ** 2).sum(axis=1))
    v = dp - dn + margin
    return np.maximum(v, 0).mean(), (anchor, pos, neg, dp, dn, v)


def triplet_backward(dy, cache):
    anchor, pos, neg, dp, dn, v = cache
    w = dy * (v > 0)[:, None] / len(v)
    gp = w * (anchor - pos) / dp[:, None]
    gn = w * (anchor - neg) / dn[:, None]
    return gp - gn, -gp, gn


def info_nce_forward(q, k, tau=0.5):
    p = softmax(q @ k.T / tau)
    return -np.log(np.diag(p)).mean(), (q, k, tau, p)


def info_nce_backward(dloss, cache):
    q, k, tau, p = cache
    n = len(q)
    ds = (p - np.eye(n, dtype=p.dtype)) * dloss / n
    dq = ds @ k / tau
    dk = ds.T @ q / tau
    return dq, dk


LABELS = np.array([2, 0, 3])
TOKENS = np.array([[1, 3, 0], [2, 0, 0]])
TRUTH = np.array([[True, False, True], [False, True, False]])

PAIRS = (
    foreign("softmax", softmax_forward, softmax_backward, normal(61, 3, 5),
            wrong("the diagonal alone", "(dp * p).sum(axis=-1, keepdims=True)", "dp * p", "summed axis",
                  "missing term"),
            wrong("outer factor left out", "p * (dp - ", "(dp - ", "missing factor")),
    foreign("log-softmax", log_softmax_forward, log_softmax_backward, normal(62, 3, 5),
            wrong("logarithm for probability", "np.exp(out)", "out", "wrong factor")),
    foreign("log-sum-exp, shifted", logsumexp_fwd, logsumexp_bwd, normal(63, 4, 3),
            wrong("gradient of the maximum added", "dy * e / s", "dy * e / s + dy * (cache[2] == cache[3])",
                  "extra term", "wrong place"),
            wrong("gradient of the shift taken twice", "dy * e / s", "dy * (e / s - (cache[2] == cache[3]))",
                  "extra term", "wrong place")),
    foreign("softmax with a temperature", temperature_softmax_forward, temperature_softmax_backward,
            (normal(64, 3, 4), np.array(1.7)),
            wrong("temperature left out", "dz / tau,", "dz,", "factor", "missing factor")),
    foreign("cross-entropy, smoothed", smoothed_ce_forward, smoothed_ce_backward, (normal(65, 3, 4), LABELS),
            wrong("batch not averaged", " / len(q)", "", "factor", "summed axis"),
            wrong("over all elements", "len(q)", "q.size", "factor", "summed axis"),
            wrong("smoothing forgotten", "(p - q)", "(p - (q == q.max(axis=1, keepdims=True)))", "wrong constant",
                  "extra term", "missing term")),
    foreign("cross-entropy, padded", masked_ce_forward, masked_ce_backward, (normal(66, 2, 3, 4), TOKENS),
            wrong("padding not masked", "d *= keep[..., None]", "pass", "wrong branch", "missing factor",
                  "wrong place"),
            wrong("averaged over all tokens", "int(keep.sum())", "keep.size", "factor", "summed axis")),
    foreign("multi-class hinge", hinge_forward, hinge_backward, (apart(67, 3, 4), LABELS),
            wrong("one for all violations", "-= d.sum(axis=1)", "-= 1", "summed axis", "missing factor",
                  "not accumulated")),
    foreign("Huber", huber_forward, huber_backward, (apart(68, 3, 3), normal(69, 3, 3)),
            wrong("sign left out", "delta * np.sign(r)", "delta", "missing factor", "sign", "wrong branch"),
            wrong("target's sign", "return g, -g", "return g, g", "sign")),
    foreign("Kullback-Leibler", kl_forward, kl_backward, (positive(70, 3, 4), normal(71, 3, 4)),
            wrong("product rule", "log_q + 1)", "log_q)", "missing term")),
    foreign("binary cross-entropy of logits", bce_logits_forward, bce_logits_backward,
            (normal(72, 3, 4), positive(73, 3, 4)),
            wrong("targets' gradient forgotten", "-dy * x / x.size", "0 * x", "zero")),
    foreign("focal", focal_forward, focal_backward, (normal(74, 2, 3), TRUTH),
            wrong("modulation held constant", "gamma * (1 - pt) ** (gamma - 1) * np.log(pt)", "0", "missing term"),
            wrong("exponent not lowered", "(gamma - 1)", "gamma", "missing factor", "wrong factor", "wrong constant")),
    foreign("cosine similarity", cosine_loss_forward, cosine_loss_backward, normals(75, (3, 4), (3, 4)),
            wrong("norm not squared", "c * a / na**2", "c * a / na", "missing factor", "wrong factor")),
    foreign("triplet", triplet_forward, triplet_backward, normals(77, (4, 3), (4, 3), (4, 3)),
            wrong("negatives' sign", "-gp, gn", "-gp, -gn", "sign"),
            wrong("margin not looked at", "dy * (v > 0)[:, None]", "dy", "wrong branch", "missing factor")),
    foreign("InfoNCE", info_nce_forward, info_nce_backward, normals(80, (4, 3), (4, 3)),
            wrong("keys by the untransposed scores", "ds.T @ q", "ds @ q", "transposed"),
            wrong("temperature left out", "ds @ k / tau", "ds @ k", "factor")),
)  # fmt: skip
