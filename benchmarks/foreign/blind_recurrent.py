"""Gated recurrences over time, written out gate by gate."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, wrong
from benchmarks.foreign.pairs_activations import sig


def gru_forward(x, mask, h0, Wz, Wr, Wn, Uz, Ur, Un, bz, br, bn):
    hs, gates = [h0], []
    for xt, real in zip(x, mask, strict=True):
        h = hs[-1]
        z = sig(xt @ Wz + h @ Uz + bz)
        r = sig(xt @ Wr + h @ Ur + br)
        hn = h @ Un
        n = np.tanh(xt @ Wn + r * hn + bn)
        gates.append((z, r, n, hn))
        hs.append(np.where(real[:, None], (1 - z) * n + z * h, h))
    return (np.stack(hs[1:]), hs[-1]), (x, mask, hs, gates, (Wz, Wr, Wn, Uz, Ur, Un))


def gru_backward(dout, cache):
    dhs, dlast = dout
    x, mask, hs, gates, weights = cache
    Wz, Wr, Wn, Uz, Ur, Un = weights
    dx = np.zeros_like(x)
    dWz = np.zeros_like(Wz)
    dWr = np.zeros_like(Wr)
    dWn = np.zeros_like(Wn)
    dUz = np.zeros_like(Uz)
    dUr = np.zeros_like(Ur)
    dUn = np.zeros_like(Un)
    dbz = np.zeros_like(Uz[0])
    dbr = np.zeros_like(Ur[0])
    dbn = np.zeros_like(Un[0])
    dh = dlast
    for t in reversed(range(len(x))):
        z, r, n, hn = gates[t]
        h = hs[t]
        real = mask[t][:, None]
        dh = dh + dhs[t]
        # a padded step hands its state on
        dcarried = np.where(real, 0, dh)
        dnew = np.where(real, dh, 0)
        dn = dnew * (1 - z)
        dz = dnew * (h - n)
        dh = dnew * z + dcarried
        dan = dn * (1 - n**2)
        dhn = dan * r
        dr = dan * hn
        daz = dz * z * (1 - z)
        dar = dr * r * (1 - r)
        dWz += x[t].T @ daz
        dWr += x[t].T @ dar
        dWn += x[t].T @ dan
        dUz += h.T @ daz
        dUr += h.T @ dar
        dUn += h.T @ dhn
        dbz += daz.sum(axis=0)
        dbr += dar.sum(axis=0)
        dbn += dan.sum(axis=0)
        dx[t] = daz @ Wz.T + dar @ Wr.T + dan @ Wn.T
        dh = dh + daz @ Uz.T
        dh = dh + dar @ Ur.T
        dh = dh + dhn @ Un.T
    return dx, dh, dWz, dWr, dWn, dUz, dUr, dUn, dbz, dbr, dbn


def peephole_forward(x, h, c, W, b, pi, pf, po):
    hs, steps = [], []
    for xt in x:
        xh = np.concatenate((xt, h), axis=1)
        ai, af, ag, ao = np.split(xh @ W + b, 4, axis=1)
        before = c
        i, f, g = sig(ai + pi * c), sig(af + pf * c), np.tanh(ag)
        c = f * c + i * g
        o = sig(ao + po * c)
        tc = np.tanh(c)
        h = o * tc
        hs.append(h)
        steps.append((xh, before, i, f, g, o, c, tc))
    return (np.stack(hs), c), (x, W, (pi, pf, po), steps)


def peephole_backward(dout, cache):
    dhs, dc = dout
    x, W, peepholes, steps = cache
    pi, pf, po = peepholes
    width = x.shape[2]
    dx = np.zeros_like(x)
    dW = np.zeros_like(W)
    db = np.zeros_like(W[0])
    dpi = np.zeros_like(pi)
    dpf = np.zeros_like(pf)
    dpo = np.zeros_like(po)
    dh = np.zeros_like(dc)
    for t in range(len(x) - 1, -1, -1):
        xh, c_prev, i, f, g, o, c, tc = steps[t]
        dh = dh + dhs[t]
        # output gate
        do = dh * tc
        dao = do * o * (1 - o)
        dpo += (dao * c).sum(axis=0)
        # cell
        dc = dc + dh * o * (1 - tc**2)
        dc = dc + dao * po
        # input gate, forget gate, candidate
        di = dc * g
        df = dc * c_prev
        dg = dc * i
        dai = di * i * (1 - i)
        daf = df * f * (1 - f)
        dag = dg * (1 - g**2)
        dpi += (dai * c_prev).sum(axis=0)
        dpf += (daf * c_prev).sum(axis=0)
        da = np.concatenate((dai, daf, dag, dao), axis=1)
        dW += xh.T @ da
        db += da.sum(axis=0)
        dxh = da @ W.T
        dx[t] = dxh[:, :width]
        # to the step before
        dh = dxh[:, width:]
        dc = dc * f
        dc = dc + dai * pi
        dc = dc + daf * pf
    return dx, dh, dc, dW, db, dpi, dpf, dpo


MASK = np.array([[True, True, True], [True, True, False], [True, False, False], [True, True, False]])

PAIRS = (
    foreign("GRU over time, padded", gru_forward, gru_backward,
            (normal(301, 4, 3, 2), MASK, normal(302, 3, 5),
             *normals(303, (2, 5), (2, 5), (2, 5), (5, 5), (5, 5), (5, 5), (5,), (5,), (5,))),
            wrong("candidate's gradient weighted by z -> weight it by 1 - z", "dnew * (1 - z)", "dnew * z",
                  "wrong factor"),
            wrong("reset bias keeps one step alone -> add up with +=", "dbr += ", "dbr = ", "not accumulated"),
            wrong("padded steps stop the gradient -> add dcarried", " + dcarried", "", "missing term", "wrong place"),
            wrong("dUr and dUz exchanged in the return -> return dUz first", "dWn, dUz, dUr,", "dWn, dUr, dUz,",
                  "swapped outputs")),
    foreign("LSTM with peepholes", peephole_forward, peephole_backward,
            normals(315, (3, 2, 4), (2, 3), (2, 3), (7, 12), (12,), (3,), (3,), (3,)),
            wrong("output peephole by the cell before -> multiply by the new cell c", "(dao * c)", "(dao * c_prev)",
                  "wrong factor"),
            wrong("cell misses its way through the output peephole -> add dao * po", "        dc = dc + dao * po\n", "",
                  "missing term"),
            wrong("slope of the output gate without its second factor -> o * (1 - o)", "do * o * (1 - o)", "do * o",
                  "missing factor", "wrong factor"),
            wrong("slope of tanh by a difference 2e-8 wide, rounded off -> use 1 - tc**2", "(1 - tc**2)",
                  "((np.tanh(c + 1e-8) - np.tanh(c - 1e-8)) / 2e-8)", "wrong factor", "wrong constant")),
)  # fmt: skip
