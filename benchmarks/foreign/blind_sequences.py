"""Sums over all paths: a conditional random field, and an alignment."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, softmax, wrong


def logsumexp(x, axis):
    top = x.max(axis=axis, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))).squeeze(axis)


def crf_forward(emit, trans, start, end, tags, mask):
    B, T, _ = emit.shape
    rows = np.arange(B)
    alphas = [start + emit[:, 0]]
    gold = start[tags[:, 0]] + emit[rows, 0, tags[:, 0]]
    for t in range(1, T):
        real = mask[:, t]
        step = logsumexp(alphas[-1][:, :, None] + trans, axis=1) + emit[:, t]
        alphas.append(np.where(real[:, None], step, alphas[-1]))
        gold = gold + np.where(real, trans[tags[:, t - 1], tags[:, t]] + emit[rows, t, tags[:, t]], 0)
    gold = gold + end[tags[rows, mask.sum(axis=1) - 1]]
    logz = logsumexp(alphas[-1] + end, axis=1)
    return np.mean(logz - gold), (emit, trans, end, tags, mask, alphas, logz)


def crf_backward(dloss, cache):
    emit, trans, end, tags, mask, alphas, logz = cache
    B, T, _ = emit.shape
    rows = np.arange(B)
    scale = dloss / B
    demit = np.zeros_like(emit)
    dtrans = np.zeros_like(trans)
    # expected counts at the end
    last = np.exp(alphas[-1] + end - logz[:, None])
    dend = last.sum(axis=0)
    # backwards: beta is the log-sum over all ways to the end
    beta = np.zeros_like(alphas[-1]) + end
    for t in range(T - 1, 0, -1):
        real = mask[:, t]
        onward = emit[:, t] + beta
        way = trans[None, :, :] + onward[:, None, :]
        joint = alphas[t - 1][:, :, None] + way
        joint = joint - joint.max(axis=(1, 2), keepdims=True)
        pair = np.exp(joint)
        pair = pair / pair.sum(axis=(1, 2), keepdims=True)
        pair = np.where(real[:, None, None], pair, 0)
        dtrans += pair.sum(axis=0)
        demit[:, t] = pair.sum(axis=1)
        beta = np.where(real[:, None], logsumexp(way, axis=2), beta)
    first = np.exp(alphas[0] + beta - logz[:, None])
    demit[:, 0] = first
    dstart = first.sum(axis=0)
    # counts of the path given
    np.add.at(dstart, tags[:, 0], -1)
    demit[rows, 0, tags[:, 0]] -= 1
    for t in range(1, T):
        here = rows[mask[:, t]]
        old = tags[here, t - 1]
        new = tags[here, t]
        np.add.at(dtrans, (old, new), -1)
        demit[here, t, new] -= 1
    final = tags[rows, mask.sum(axis=1) - 1]
    np.add.at(dend, final, -1)
    # averaged over the batch
    demit = demit * scale
    dtrans = dtrans * scale
    dstart = dstart * scale
    dend = dend * scale
    return demit, dtrans, dstart, dend


def alignment_forward(logits, labels):
    p = softmax(logits)
    a = np.zeros((len(p), len(labels)), dtype=p.dtype)
    a[0, 0] = p[0, labels[0]]
    for t in range(1, len(p)):
        a[t] = a[t - 1]
        a[t, 1:] += a[t - 1, :-1]
        a[t] *= p[t, labels]
    return -np.log(a[-1, -1]), (p, labels, a)


def alignment_backward(dloss, cache):
    p, labels, a = cache
    dp, da = np.zeros_like(p), np.zeros_like(a)
    da[-1, -1] = -dloss / a[-1, -1]
    for t in range(len(p) - 1, 0, -1):
        into = a[t - 1].copy()
        into[1:] += a[t - 1, :-1]
        np.add.at(dp[t], labels, da[t] * into)
        back = da[t] * p[t, labels]
        da[t - 1] = back
        da[t - 1, :-1] += back[1:]
    dp[0, labels[0]] += da[0, 0]
    return p * (dp - (dp * p).sum(axis=1, keepdims=True))


TAGS = np.array([[0, 2, 1, 1, 3], [0, 2, 2, 3, 0], [1, 0, 2, 0, 0]])
REAL = np.arange(5) < np.array([[5], [4], [2]])

PAIRS = (
    foreign("conditional random field", crf_forward, crf_backward,
            (*normals(411, (3, 5, 4), (4, 4), (4,), (4,)), TAGS, REAL),
            wrong("transitions counted from the new tag to the old -> without .T", "dtrans += pair.sum(axis=0)",
                  "dtrans += pair.sum(axis=0).T", "transposed"),
            wrong("equal transitions in a batch subtracted once -> np.add.at", "np.add.at(dtrans, (old, new), -1)",
                  "dtrans[old, new] -= 1", "not accumulated"),
            wrong("end scores forgotten where beta starts -> start beta from end", "(alphas[-1]) + end", "(alphas[-1])",
                  "missing term"),
            wrong("1e-8 added to the sum that normalises -> divide by the sum alone",
                  "pair / pair.sum(axis=(1, 2), keepdims=True)", "pair / (pair.sum(axis=(1, 2), keepdims=True) + 1e-8)",
                  "extra term", "wrong constant")),
    foreign("monotonic alignment", alignment_forward, alignment_backward, (normal(417, 6, 4), np.array([1, 3, 1])),
            wrong("1e-10 added to the probability -> divide by it alone", "/ a[-1, -1]", "/ (a[-1, -1] + 1e-10)",
                  "extra term", "wrong constant"),
            wrong("handed to the next label, not the one before -> da[t - 1, :-1] += back[1:]",
                  "da[t - 1, :-1] += back[1:]", "da[t - 1, 1:] += back[:-1]", "reshaped", "wrong place")),
)  # fmt: skip
