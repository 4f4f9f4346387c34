"""Cells, gates over time, and scans."""

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, normals, positive, wrong
from benchmarks.foreign.pairs_activations import sig


def lstm_cell_forward(x, h, c, Wx, Wh, b):
    a = x @ Wx + h @ Wh + b
    ai, af, ao, ag = np.split(a, 4, axis=1)
    i, f, o, g = sig(ai), sig(af), sig(ao), np.tanh(ag)
    c_next = f * c + i * g
    tc = np.tanh(c_next)
    return (o * tc, c_next), (x, h, c, Wx, Wh, i, f, o, g, tc)


def lstm_cell_backward(dnext, cache):
    dh_next, dc_next = dnext
    x, h, c, Wx, Wh, i, f, o, g, tc = cache
    dc = dc_next + dh_next * o * (1 - tc**2)
    do = dh_next * tc
    di, df, dg = dc * g, dc * c, dc * i
    da = np.hstack([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
    dc_prev = dc * f
    return da @ Wx.T, da @ Wh.T, dc_prev, x.T @ da, h.T @ da, da.sum(axis=0)


def gru_cell_forward(x, h, W, U):
    xr, xz, xn = np.split(x @ W, 3, axis=1)
    hr, hz, hn = np.split(h @ U, 3, axis=1)
    r = sig(xr + hr)
    z = sig(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h, (x, h, W, U, r, z, n, hn)


def gru_cell_backward(dh, cache):
    x, h, W, U, r, z, n, hn = cache
    dn = dh * (1 - z) * (1 - n * n)
    dz = dh * (h - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    dax = np.concatenate((dr, dz, dn), axis=1)
    dah = np.concatenate((dr, dz, dn * r), axis=1)
    return dax @ W.T, dah @ U.T + dh * z, x.T @ dax, h.T @ dah


def highway_forward(x, W, b, Wt, bt):
    h = np.tanh(x.dot(W) + b)
    t = sig(x.dot(Wt) + bt)
    return h * t + x * (1 - t), (x, W, Wt, h, t)


def highway_backward(dy, cache):
    x, W, Wt, h, t = cache
    dah = dy * t * (1 - h**2)
    dat = dy * (h - x) * t * (1 - t)
    dx = dah.dot(W.T) + dat.dot(Wt.T) + dy * (1 - t)
    return dx, x.T.dot(dah), dah.sum(0), x.T.dot(dat), dat.sum(0)


def rnn_forward(xs, W, U, h0):
    hs = [h0]
    for x in xs:
        hs.append(np.tanh(x @ W + hs[-1] @ U))
    return np.stack(hs[1:]), (xs, W, U, hs)


def rnn_backward(dhs, cache):
    xs, W, U, hs = cache
    dxs = np.zeros_like(xs)
    dW, dU = np.zeros_like(W), np.zeros_like(U)
    dh = np.zeros_like(hs[0])
    for t in reversed(range(len(xs))):
        da = (dhs[t] + dh) * (1 - hs[t + 1] ** 2)
        dW += xs[t].T @ da
        dU += hs[t].T @ da
        dxs[t] = da @ W.T
        dh = da @ U.T
    return dxs, dW, dU, dh


def linear_scan_forward(a, b):
    h = np.zeros_like(b)
    state = np.zeros_like(b[:, 0])
    for t in range(b.shape[1]):
        state = a[:, t] * state + b[:, t]
        h[:, t] = state
    return h, (a, h)


def linear_scan_backward(dh, cache):
    a, h = cache
    da, db = np.zeros_like(a), np.zeros_like(a)
    carry = np.zeros_like(dh[:, 0])
    for t in range(a.shape[1] - 1, -1, -1):
        carry = carry + dh[:, t]
        db[:, t] = carry
        if t > 0:
            da[:, t] = carry * h[:, t - 1]
        carry = carry * a[:, t]
    return da, db


def ema_forward(x, rho=0.7):
    y = np.empty_like(x)
    y[0] = x[0]
    for t in range(1, len(x)):
        y[t] = rho * y[t - 1] + (1 - rho) * x[t]
    return y, rho


def ema_backward(dy, rho):
    dx = np.empty_like(dy)
    g = np.zeros_like(dy[0])
    for t in range(len(dy) - 1, 0, -1):
        g = g + dy[t]
        dx[t] = (1 - rho) * g
        g = rho * g
    dx[0] = g + dy[0]
    return dx


def cumsum_forward(x):
    return np.cumsum(x, axis=1), None


def cumsum_backward(dy, _):
    return np.cumsum(dy[:, ::-1], axis=1)[:, ::-1]


def cumprod_forward(x):
    y = np.cumprod(x, axis=-1)
    return y, (x, y)


def cumprod_backward(dy, cache):
    x, y = cache
    s = dy * y
    return np.cumsum(s[..., ::-1], axis=-1)[..., ::-1] / x


def cummax_forward(x):
    y = np.maximum.accumulate(x, axis=1)
    return y, (x, y)


def cummax_backward(dy, cache):
    x, y = cache
    new = x == y
    source = np.maximum.accumulate(np.where(new, np.arange(x.shape[1]), 0), axis=1)
    dx = np.zeros_like(x)
    rows = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    np.add.at(dx, (rows, source), dy)
    return dx


PAIRS = (
    foreign("LSTM cell", lstm_cell_forward, lstm_cell_backward,
            normals(101, (2, 3), (2, 2), (2, 2), (3, 8), (2, 8), (8,)),
            wrong("next cell state's gradient forgotten", "dc = dc_next + ", "dc = ", "missing term"),
            wrong("forget gate by the candidate", "dc * g, dc * c, dc * i", "dc * g, dc * g, dc * i", "wrong factor")),
    foreign("GRU cell", gru_cell_forward, gru_cell_backward, normals(107, (2, 3), (2, 2), (3, 6), (2, 6)),
            wrong("way past the gate forgotten", " + dh * z", "", "missing term"),
            wrong("reset gate forgotten", "dn * r), axis=1", "dn), axis=1", "missing factor")),
    foreign("highway", highway_forward, highway_backward, normals(111, (3, 4), (4, 4), (4,), (4, 4), (4,)),
            wrong("gate's sign", "(h - x)", "(x - h)", "sign"),
            wrong("carried with the gate", "dy * (1 - t)\n", "dy * t\n", "wrong factor")),
    foreign("RNN over time", rnn_forward, rnn_backward, normals(116, (3, 2, 3), (3, 4), (4, 4), (2, 4)),
            wrong("the last step's weights alone", "dU += ", "dU = ", "not accumulated"),
            wrong("not through time", "(dhs[t] + dh)", "dhs[t]", "missing term")),
    foreign("linear recurrence", linear_scan_forward, linear_scan_backward, (positive(120, 2, 5), normal(121, 2, 5)),
            wrong("state of the same step", "h[:, t - 1]", "h[:, t]", "wrong place", "wrong factor"),
            wrong("carried by the neighbour", "carry * a[:, t]", "carry * a[:, t - 1]", "wrong place", "wrong factor")),
    foreign("moving average", ema_forward, ema_backward, normal(122, 5, 3),
            wrong("first element as the others", "dx[0] = g + dy[0]", "dx[0] = (1 - rho) * (g + dy[0])", "wrong place",
                  "factor")),
    foreign("cumsum", cumsum_forward, cumsum_backward, normal(123, 3, 5),
            wrong("from the front", "np.cumsum(dy[:, ::-1], axis=1)[:, ::-1]", "np.cumsum(dy, axis=1)", "reshaped",
                  "summed axis")),
    foreign("cumprod", cumprod_forward, cumprod_backward, positive(124, 3, 4),
            wrong("not divided", "[..., ::-1] / x", "[..., ::-1]", "missing factor")),
    foreign("cummax", cummax_forward, cummax_backward, apart(125, 3, 5),
            wrong("assigned", "np.add.at(dx, (rows, source), dy)", "dx[rows, source] = dy", "not accumulated")),
)  # fmt: skip
