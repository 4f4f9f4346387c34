"""Look-ups, order statistics, reductions and choices."""

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, normals, positive, wrong


def embedding_forward(table, ids):
    return table[ids], (table.shape, ids)


def embedding_backward(dy, cache):
    shape, ids = cache
    dtable = np.zeros(shape, dtype=dy.dtype)
    np.add.at(dtable, ids, dy)
    return dtable


def scatter_add_forward(values, index, slots=4):
    out = np.zeros((slots, values.shape[1]), dtype=values.dtype)
    np.add.at(out, index, values)
    return out, index


def scatter_add_backward(dout, index):
    return dout[index]


def sort_forward(x):
    order = np.argsort(x, axis=1)
    return np.take_along_axis(x, order, axis=1), order


def sort_backward(dy, order):
    dx = np.empty_like(dy)
    np.put_along_axis(dx, order, dy, axis=1)
    return dx


def topk_forward(x, k=2):
    idx = np.argsort(-x, axis=-1)[..., :k]
    return np.take_along_axis(x, idx, axis=-1), (idx, x.shape)


def topk_backward(dy, cache):
    idx, shape = cache
    dx = np.zeros(shape, dtype=dy.dtype)
    np.put_along_axis(dx, idx, dy, axis=-1)
    return dx


def gather_rows_forward(x, score):
    order = np.argsort(score)
    return x[order], order


def gather_rows_backward(dy, order):
    inverse = np.argsort(order)
    return dy[inverse]


def median_forward(x):
    y = np.median(x, axis=0)
    return y, x


def median_backward(dy, x):
    order = x.argsort(axis=0)
    n = len(x)
    dx = np.zeros_like(x)
    for row in (order[n // 2], order[(n - 1) // 2]):
        dx[row, np.arange(x.shape[1])] += dy / 2
    return dx


def quantile_forward(v, q=0.3):
    s = np.sort(v)
    pos = q * (len(v) - 1)
    lo = int(pos)
    w = pos - lo
    return (1 - w) * s[lo] + w * s[lo + 1], (v, lo, w)


def quantile_backward(dy, cache):
    v, lo, w = cache
    order = np.argsort(v)
    dv = np.zeros_like(v)
    dv[order[lo]] = (1 - w) * dy
    dv[order[lo + 1]] = w * dy
    return dv


def lerp_table_forward(table, t):
    i = np.floor(t.real).astype(int)
    frac = t - i.astype(t.dtype)
    return table[i] * (1 - frac) + table[i + 1] * frac, (table, i, frac)


def lerp_table_backward(dy, cache):
    table, i, frac = cache
    dtable = np.zeros_like(table)
    np.add.at(dtable, i, dy * (1 - frac))
    np.add.at(dtable, i + 1, dy * frac)
    dt = dy * (table[i + 1] - table[i])
    return dtable, dt


def bilinear_forward(img, x, y):
    x0, y0 = x.astype(int), y.astype(int)
    a, b = x - x0.astype(x.dtype), y - y0.astype(y.dtype)
    p00, p01 = img[y0, x0], img[y0, x0 + 1]
    p10, p11 = img[y0 + 1, x0], img[y0 + 1, x0 + 1]
    out = (p00 * (1 - a) + p01 * a) * (1 - b) + (p10 * (1 - a) + p11 * a) * b
    return out, (img.shape, x0, y0, a, b, p00, p01, p10, p11)


def bilinear_backward(dout, cache):
    shape, x0, y0, a, b, p00, p01, p10, p11 = cache
    dimg = np.zeros(shape, dtype=dout.dtype)
    np.add.at(dimg, (y0, x0), dout * (1 - a) * (1 - b))
    np.add.at(dimg, (y0, x0 + 1), dout * a * (1 - b))
    np.add.at(dimg, (y0 + 1, x0), dout * (1 - a) * b)
    np.add.at(dimg, (y0 + 1, x0 + 1), dout * a * b)
    dx = dout * ((p01 - p00) * (1 - b) + (p11 - p10) * b)
    dy = dout * ((p10 - p00) * (1 - a) + (p11 - p01) * a)
    return dimg, dx, dy


def clip_forward(x, lo=-0.75, hi=1.1):
    return np.clip(x, lo, hi), (x, lo, hi)


def clip_backward(dy, cache):
    x, lo, hi = cache
    return dy * ((x >= lo) & (x <= hi))


def where_forward(mask, a, b):
    return np.where(mask, a * b, a - b), (mask, a, b)


def where_backward(dy, cache):
    mask, a, b = cache
    da = np.where(mask, dy * b, dy)
    db = np.where(mask, dy * a, -dy)
    return da, db


def row_max_forward(x):
    m = x.max(axis=1)
    return m, (x, m)


def row_max_backward(dm, cache):
    x, m = cache
    hit = x == m[:, None]
    return hit * dm[:, None]


def global_min_forward(x):
    return x.min(), (x.shape, x.argmin())


def global_min_backward(dy, cache):
    shape, where = cache
    dx = np.zeros(shape, dtype=dy.dtype)
    dx.flat[where] = dy
    return dx


def prod_forward(x):
    p = np.prod(x, axis=-1, keepdims=True)
    return p, (x, p)


def prod_backward(dy, cache):
    x, p = cache
    return dy * p / x


def var_forward(x):
    return np.var(x, axis=0, ddof=1), x


def var_backward(dv, x):
    centred = x - x.mean(axis=0)
    return dv * 2 * centred / (len(x) - 1)


def pair_minmax_forward(a, b):
    return (np.maximum(a, b), np.minimum(a, b)), a > b


def pair_minmax_backward(douts, greater):
    dmax, dmin = douts
    da = np.where(greater, dmax, dmin)
    db = np.where(greater, dmin, dmax)
    return da, db


IDS = np.array([[1, 4, 1], [0, 2, 1]])
SLOTS = np.array([0, 2, 2, 3, 0])
CHOICE = np.array([[True, False, True, False], [False, False, True, True], [True, True, False, False]])

PAIRS = (
    foreign("embedding, np.add.at", embedding_forward, embedding_backward, (normal(151, 5, 3), IDS),
            wrong("assigned at repeated ids", "np.add.at(dtable, ids, dy)", "dtable[ids] = dy", "not accumulated"),
            wrong("+= at repeated ids", "np.add.at(dtable, ids, dy)", "dtable[ids] += dy", "not accumulated"),
            wrong("ids off by one", "np.add.at(dtable, ids, dy)", "np.add.at(dtable, ids - 1, dy)", "wrong place",
                  "reshaped")),
    foreign("scatter-add", scatter_add_forward, scatter_add_backward, (normal(152, 5, 2), SLOTS),
            wrong("shared among the contributions", "dout[index]", "dout[index] / np.bincount(index)[index][:, None]",
                  "factor", "extra term", "wrong factor")),
    foreign("sort", sort_forward, sort_backward, apart(153, 3, 4),
            wrong("order for its inverse", "np.put_along_axis(dx, order, dy, axis=1)",
                  "dx = np.take_along_axis(dy, order, axis=1)", "reshaped", "wrong place")),
    foreign("top-k", topk_forward, topk_backward, apart(154, 3, 5),
            wrong("largest alone", "idx, dy, axis", "idx[..., :1], dy[..., :1], axis", "wrong place", "zero")),
    foreign("rows by their score", gather_rows_forward, gather_rows_backward,
            (normal(155, 5, 3), np.array([3, 0, 4, 1, 2])),
            wrong("order for its inverse", "dy[inverse]", "dy[order]", "reshaped", "wrong place")),
    foreign("median", median_forward, median_backward, apart(156, 4, 3),
            wrong("upper one alone", "(n - 1) // 2", "n // 2", "wrong place", "not accumulated"),
            wrong("assigned", "+= dy / 2", "= dy", "factor", "not accumulated")),
    foreign("quantile", quantile_forward, quantile_backward, apart(157, 8),
            wrong("weights exchanged", "dv[order[lo]] = (1 - w) * dy", "dv[order[lo]] = w * dy", "wrong factor",
                  "factor"),
            options={"q": 0.37}),
    foreign("interpolation, linear", lerp_table_forward, lerp_table_backward,
            (normal(158, 5), np.array([0.3, 2.6, 2.2, 3.7, 0.8])),
            wrong("left end forgotten", "np.add.at(dtable, i, dy * (1 - frac))", "pass", "missing term")),
    foreign("interpolation, bilinear", bilinear_forward, bilinear_backward,
            (normal(159, 3, 4), np.array([0.3, 1.6, 2.3]), np.array([1.4, 0.2, 1.7])),
            wrong("x for y", "return dimg, dx, dy", "return dimg, dy, dx", "swapped outputs"),
            wrong("one corner forgotten", "np.add.at(dimg, (y0 + 1, x0 + 1), dout * a * b)", "pass", "missing term",
                  "wrong place")),
    foreign("clip", clip_forward, clip_backward, apart(160, 3, 4),
            wrong("lower bound alone", " & (x <= hi)", "", "wrong branch", "missing factor")),
    foreign("where", where_forward, where_backward, (CHOICE, normal(161, 3, 4), normal(162, 3, 4)),
            wrong("choice forgotten", "np.where(mask, dy * a, -dy)", "dy * a", "wrong branch")),
    foreign("maximum of rows", row_max_forward, row_max_backward, apart(163, 4, 3),
            wrong("first of each row", "x == m[:, None]", "np.arange(x.shape[1]) == 0", "wrong place", "wrong branch")),
    foreign("minimum of all", global_min_forward, global_min_backward, apart(164, 3, 3),
            wrong("to all", "dx.flat[where] = dy", "dx[...] = dy", "wrong branch", "missing factor")),
    foreign("product of rows", prod_forward, prod_backward, positive(165, 3, 4),
            wrong("own factor kept", "p / x", "p + 0 * x", "missing factor")),
    foreign("variance", var_forward, var_backward, normal(166, 5, 3),
            wrong("n for n − 1", "(len(x) - 1)", "len(x)", "factor", "wrong constant"),
            wrong("not centred", "x - x.mean(axis=0)", "x", "missing term")),
    foreign("maximum and minimum of two", pair_minmax_forward, pair_minmax_backward, normals(167, (3, 3), (3, 3)),
            wrong("both to the larger", "np.where(greater, dmin, dmax)", "np.where(greater, dmax, dmin)",
                  "wrong branch")),
)  # fmt: skip
