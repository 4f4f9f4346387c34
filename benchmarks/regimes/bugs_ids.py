"""Bugs that show at repeated ids, at masks that hide all, and at lengths of 0."""

import numpy as np

from benchmarks.regimes.bug import Bug, normal


# Rows of a table, by their ids.
def embedding_forward(table, ids):
    return table[ids], (table.shape, ids)


def embedding_backward(dy, cache):
    shape, ids = cache
    d = np.zeros(shape)
    np.add.at(d, ids, dy)
    return d


# The same through a product: each position adds its rank-one part.
def indexed_forward(x, index):
    return np.tanh(x[index]), (x, index)


def indexed_backward(dy, cache):
    x, index = cache
    dx, part = np.zeros_like(x), dy * (1 - np.tanh(x[index]) ** 2)
    for i, row in zip(index, part, strict=True):
        dx[i] += row
    return dx


# One entry of each row, or several.
def gather_forward(x, index):
    return np.take_along_axis(x, index, axis=1), (x.shape, index)


def gather_backward(dy, cache):
    shape, index = cache
    dx = np.zeros(shape)
    np.add.at(dx, (np.arange(len(index))[:, None], index), dy)
    return dx


# Attention in which a query may see nothing: its output is then 0.
def masked_attention_forward(q, k, v, visible):
    scores = np.where(visible, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    top = np.real(scores).max(axis=-1, keepdims=True)
    e = np.where(visible, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = e.sum(axis=-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    return p @ v, (q, k, v, p, total, visible)


def masked_attention_backward(dy, cache):
    q, k, v, p, total, _visible = cache
    p = np.where(total == 0, 0, p)
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ dy


# The same, from the log of each row's sum: hidden scores are a large negative number.
def lse_attention_forward(q, k, v, visible):
    y, (q, k, v, _p, _total, visible) = masked_attention_forward(q, k, v, visible)
    scores = np.where(visible, np.real(q @ k.T) / np.sqrt(q.shape[-1]), -1e9)
    top = scores.max(axis=-1, keepdims=True)
    return y, (q, k, v, top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)), visible)


def lse_attention_backward(dy, cache):
    q, k, v, lse, visible = cache
    p = np.exp(np.where(visible, q @ k.T / np.sqrt(q.shape[-1]), -1e9) - lse)
    p = np.where(visible, p, 0)
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ dy


# Cross-entropy over the targets that count; 0 if none does.
def ignoring_forward(x, targets, ignore_index=-1):
    z = x - np.real(x).max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    counts = targets != ignore_index
    each = -log_p[np.arange(len(x)), np.where(counts, targets, 0)]
    return np.where(counts, each, 0).sum() / max(counts.sum(), 1), (np.exp(log_p), targets, counts)


def ignoring_backward(dy, cache):
    p, targets, counts = cache
    dx = p - np.eye(p.shape[-1])[np.where(counts, targets, 0)]
    return dy * dx * counts[:, None] / max(counts.sum(), 1)


# The mean of the first steps of each sequence; 0 if it has none.
def pooled_forward(x, lengths):
    counts = np.arange(x.shape[1]) < lengths[:, None]
    return np.where(counts[..., None], x, 0).sum(axis=1) / np.maximum(lengths, 1)[:, None], (x.shape, lengths, counts)


def pooled_backward(dy, cache):
    shape, lengths, counts = cache
    share = dy / np.maximum(lengths, 1)[:, None]
    return np.broadcast_to(share[:, None], shape) * counts[..., None]


IDS = np.array([4, 0, 6])
VISIBLE = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1], [0, 1, 1, 0, 1], [1, 1, 1, 1, 0]], dtype=bool)
HEADS = (normal(61, 4, 3), normal(62, 5, 3), normal(63, 5, 6), VISIBLE)

BUGS = (
    Bug("embedding: += by index adds once", embedding_forward, embedding_backward, (normal(64, 7, 3), IDS),
        "np.add.at(d, ids, dy)", "d[ids] += dy",
        "repeated ids", "tenstorrent/tt-metal#6232"),
    Bug("indexing: the last copy wins", indexed_forward, indexed_backward, (normal(65, 7, 3), IDS),
        "dx[i] += row", "dx[i] = row",
        "repeated ids", "pytorch/pytorch#1528"),
    Bug("gather: repeated entries do not add up", gather_forward, gather_backward,
        (normal(66, 3, 6), np.array([[0, 2], [5, 1], [3, 4]])),
        "np.add.at(dx, (np.arange(len(index))[:, None], index), dy)", "np.put_along_axis(dx, index, dy, axis=1)",
        "repeated ids", "ooples/AiDotNet.Tensors#894"),
    Bug("attention: a query that sees nothing divides 0 by 0", masked_attention_forward, masked_attention_backward,
        HEADS, "np.where(total == 0, 0, p)", "p * (total / total)",
        "a fully masked row", "pytorch/pytorch#41508"),
    Bug("attention: hidden entries of p are not set to 0", lse_attention_forward, lse_attention_backward,
        HEADS, "np.where(visible, p, 0)", "p",
        "a fully masked row", "Dao-AILab/flash-attention#1947"),
    Bug("cross-entropy: divided by the number of targets that count", ignoring_forward, ignoring_backward,
        (normal(67, 4, 6), np.array([2, 0, 5, 1])), "/ max(counts.sum(), 1)", "/ counts.sum()",
        "all targets ignored", "nvidia-cosmos/cosmos-rl#155"),
    Bug("mean pooling: divided by a length of 0", pooled_forward, pooled_backward,
        (normal(68, 3, 5, 2), np.array([3, 5, 2])), "np.maximum(lengths, 1)[:, None]", "lengths[:, None]",
        "an empty sequence", "meta-pytorch/torchrec#1772"),
)  # fmt: skip
