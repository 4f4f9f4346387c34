"""Wrong loops in low precision: over hashes, blocks of keys, steps and chunks. The forward is right."""

import numpy as np

from benchmarks.precision import blind_references as references
from benchmarks.precision.blind_right import SCAN, half, normal, single
from benchmarks.precision.kernel import tf32_product, wrong


def first_hash(ids):
    return ids * 5 % 7


def second_hash(ids):
    return (ids * 3 + 1) % 7


def hashed_forward(ids, table, p):
    one, two = first_hash(ids), second_hash(ids)
    return p[:, :1] * table[one] + p[:, 1:] * table[two], (one, two, table, p)


def hashed_backward(dy, cache):
    one, two, table, p = cache
    dtable = np.zeros_like(table)
    np.add.at(dtable, one, p[:, :1] * dy)
    apart = one != two
    np.add.at(dtable, two[apart], p[apart, 1:] * dy[apart])
    return dtable, np.stack([(dy * table[one]).sum(axis=1), (dy * table[two]).sum(axis=1)], axis=1)


TIMES, WINDOW, BLOCK = 8, 3, 4
BEHIND = np.arange(TIMES)[:, None] - np.arange(TIMES)
BAND = np.where((BEHIND >= 0) & (BEHIND < WINDOW), 0.0, -np.inf)


def banded_forward(q, k, v):
    s = np.stack([tf32_product(a, b.T) for a, b in zip(q, k, strict=True)]) * single(0.5) + BAND.astype(q.dtype)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    y = np.stack([tf32_product(a, b) for a, b in zip(e / total, v, strict=True)])
    return y, (q, k, v, y, top + np.log(total))


def banded_backward(dy, cache):
    q, k, v, y, lse = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    delta = (dy * y).sum(axis=-1, keepdims=True)
    for head in range(len(q)):
        for start in range(0, TIMES, BLOCK):
            keys = slice(start, start + BLOCK)
            rows = slice(start, min(start + BLOCK + WINDOW - 2, TIMES))
            s = tf32_product(q[head, rows], k[head, keys].T) * single(0.5) + BAND[rows, keys].astype(q.dtype)
            p = np.exp(s - lse[head, rows])
            ds = p * (tf32_product(dy[head, rows], v[head, keys].T) - delta[head, rows]) * single(0.5)
            dv[head, keys] = tf32_product(p.T, dy[head, rows])
            dk[head, keys] = tf32_product(ds.T, q[head, rows])
            dq[head, rows] += tf32_product(ds, k[head, keys])
    return dq, dk, dv


SPAN = 3


def elman_forward(x, h0, w, u):
    h, states, marks = h0, [], []
    for t in range(len(x)):
        if t % SPAN == 0 and t < len(x) - SPAN:
            marks.append(h)
        h = np.tanh(tf32_product(x[t], w) + tf32_product(h, u))
        if t % SPAN == 0 and t >= len(x) - SPAN:
            marks.append(h)
        states.append(h)
    return np.stack(states), (x, w, u, states, marks)


def elman_backward(dy, cache):
    x, w, u, states, marks = cache
    dx, dw, du, g = np.empty_like(x), np.zeros_like(w), np.zeros_like(u), np.zeros_like(dy[0])
    for t in reversed(range(len(x))):
        before = states[t - 1] if t % SPAN else marks[t // SPAN]
        da = (dy[t] + g) * (1 - states[t] * states[t])
        dx[t] = tf32_product(da, w.T)
        dw += tf32_product(x[t].T, da)
        du += tf32_product(before.T, da)
        g = tf32_product(da, u.T)
    return dx, g, dw, du


CHUNK = 4


def chunked_forward(x, a):
    h, states = 0 * single(x[0]), []
    for t in range(len(x)):
        h = single(a[t]) * h + single(x[t])
        states.append(h)
    return half(np.stack(states)), (a, np.stack(states))


def chunked_backward(dy, cache):
    a, states = single(cache[0]), cache[1]
    dx, da, later = 0 * states, 0 * states, 0 * states[0]
    for start in range(len(a) - CHUNK, -1, -CHUNK):
        end = start + CHUNK
        g = a[end - 1] * later  # what the chunk behind hands back
        for t in reversed(range(start, end)):
            dx[t] = single(dy[t]) + g
            da[t] = dx[t] * states[t - 1] if t else 0
            g = a[t] * dx[t]
        later = dx[start]
    return half(dx), half(da)


def draw_hashed(rng):
    ids = rng.integers(0, 7, size=6)
    ids[2] = 4  # 5 * 4 and 3 * 4 + 1 agree modulo 7
    return ids, rng.normal(size=(7, 3)), rng.normal(size=(6, 2))


def draw_chunked(rng):
    return rng.normal(size=(2 * CHUNK, 3)), rng.uniform(0.6, 1, size=(2 * CHUNK, 3))


r = references
HASHED, HASHES = (hashed_forward, hashed_backward), r.hashed(first_hash, second_hash)
BANDED, DRAW_HEADS = (banded_forward, banded_backward), normal((2, TIMES, 4), (2, TIMES, 4), (2, TIMES, 4))
ELMAN, ELMAN_REFERENCE = (elman_forward, elman_backward), (r.elman, r.elman_backward)
DRAW_ELMAN = normal((6, 3, 2), (3, 4), (2, 4), (4, 4))
CHUNKED = chunked_forward, chunked_backward
TWICE = "an id whose two hashes agree gives its row one gradient of two"
BORDER = "between chunks the decay of the step before the border is used"

KERNELS = (
    wrong("hash-embedding", "float32", HASHED, HASHES, draw_hashed, TWICE),
    wrong("window-attention", "tf32", BANDED, r.attention(BAND, 0.5), DRAW_HEADS, "a block of keys loses its last row"),
    wrong("elman-checkpoints", "tf32", ELMAN, ELMAN_REFERENCE, DRAW_ELMAN, "the last span's mark is one step late"),
    wrong("chunked-recurrence", "float16", CHUNKED, SCAN, draw_chunked, BORDER),
)
