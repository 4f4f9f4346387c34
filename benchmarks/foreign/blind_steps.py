"""Steps of solvers, of an optimiser and along a ray."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, positive, wrong


def rk4_forward(y, W1, b1, W2, dt):
    h1 = np.tanh(y @ W1 + b1)
    k1 = h1 @ W2
    y2 = y + dt / 2 * k1
    h2 = np.tanh(y2 @ W1 + b1)
    k2 = h2 @ W2
    y3 = y + dt / 2 * k2
    h3 = np.tanh(y3 @ W1 + b1)
    k3 = h3 @ W2
    y4 = y + dt * k3
    h4 = np.tanh(y4 @ W1 + b1)
    k4 = h4 @ W2
    out = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return out, (y, y2, y3, y4, h1, h2, h3, h4, k1, k2, k3, k4, W1, W2, dt)


def rk4_backward(dout, cache):
    y, y2, y3, y4, h1, h2, h3, h4, k1, k2, k3, k4, W1, W2, dt = cache
    dy = dout
    ddt = np.sum(dout * (k1 + 2 * k2 + 2 * k3 + k4)) / 6
    dk1 = dt / 6 * dout
    dk2 = dt / 3 * dout
    dk3 = dt / 3 * dout
    dk4 = dout * dt / 6
    # fourth stage
    dW2 = h4.T @ dk4
    da4 = (dk4 @ W2.T) * (1 - h4**2)
    dW1 = y4.T @ da4
    db1 = da4.sum(axis=0)
    dy4 = da4 @ W1.T
    dy = dy + dy4
    dk3 = dk3 + dt * dy4
    ddt = ddt + np.sum(dy4 * k3)
    # third stage
    dW2 = dW2 + h3.T @ dk3
    da3 = (dk3 @ W2.T) * (1 - h3**2)
    dW1 = dW1 + y3.T @ da3
    db1 = db1 + da3.sum(axis=0)
    dy3 = da3 @ W1.T
    dy = dy + dy3
    dk2 = dk2 + dt / 2 * dy3
    ddt = ddt + np.sum(dy3 * k2) / 2
    # second stage
    dW2 = dW2 + h2.T @ dk2
    da2 = (dk2 @ W2.T) * (1 - h2**2)
    dW1 = dW1 + y2.T @ da2
    db1 = db1 + da2.sum(axis=0)
    dy2 = da2 @ W1.T
    dy = dy + dy2
    dk1 = dk1 + dt / 2 * dy2
    ddt = ddt + np.sum(dy2 * k1) / 2
    # first stage
    dW2 = dW2 + h1.T @ dk1
    da1 = (dk1 @ W2.T) * (1 - h1**2)
    dW1 = dW1 + y.T @ da1
    db1 = db1 + da1.sum(axis=0)
    dy = dy + da1 @ W1.T
    return dy, dW1, db1, dW2, ddt


def equilibrium_forward(x, W):
    y = np.zeros_like(x)
    for _ in range(120):
        y = np.tanh(y @ W + x)
    return y, (y, W)


def equilibrium_backward(dy, cache):
    y, W = cache
    slope = 1 - y**2
    g = dy
    for _ in range(120):
        g = dy + (g * slope) @ W.T
    dx = g * slope
    return dx, y.T @ dx


def render_forward(sigma, delta, colour, back=0.8, eps=6e-9):
    alpha = 1 - np.exp(-sigma * delta)
    through = np.cumprod(1 - alpha + eps, axis=1)
    before = np.concatenate((np.ones_like(through[:, :1]), through[:, :-1]), axis=1)
    w = alpha * before
    pixel = np.einsum("rs,rsc->rc", w, colour) + back * (1 - w.sum(axis=1))[:, None]
    return pixel, (sigma, delta, colour, alpha, before, w, back, eps)


def render_backward(dpixel, cache):
    sigma, delta, colour, alpha, before, w, back, eps = cache
    dcolour = w[:, :, None] * dpixel[:, None, :]
    dw = np.einsum("rc,rsc->rs", dpixel, colour) - back * dpixel.sum(axis=1)[:, None]
    dwhole = dw * w
    later = np.cumsum(dwhole[:, ::-1], axis=1)[:, ::-1] - dwhole
    dalpha = dw * before - later / (1 - alpha + eps)
    ddepth = dalpha * (1 - alpha)
    return ddepth * delta, ddepth * sigma, dcolour


def adam_forward(g, m, v, step=5, b1=0.87, b2=0.985, lr=0.3, eps=2e-8):
    mh = (b1 * m + (1 - b1) * g) / (1 - b1**step)
    vh = (b2 * v + (1 - b2) * g**2) / (1 - b2**step)
    return -lr * mh / (np.sqrt(vh) + eps), (g, mh, vh, step, b1, b2, lr, eps)


def adam_backward(dout, cache):
    g, mh, vh, step, b1, b2, lr, eps = cache
    root = np.sqrt(vh)
    den = root + eps
    dmh = -lr * dout / den
    dvh = lr * dout * mh / den**2 / (2 * root)
    dm = dmh / (1 - b1**step)
    dv = dvh / (1 - b2**step)
    dg = (1 - b1) * dm + 2 * (1 - b2) * g * dv
    return dg, b1 * dm, b2 * dv


PAIRS = (
    foreign("Runge-Kutta step", rk4_forward, rk4_backward, (*normals(371, (3, 2), (2, 4), (4,), (4, 2)), np.array(0.4)),
            wrong("third stage by the second's hidden layer -> h3", "h3.T @ dk3", "h2.T @ dk3", "wrong factor"),
            wrong("step's gradient in the third stage by k1 -> by k2", "np.sum(dy3 * k2)", "np.sum(dy3 * k1)",
                  "wrong factor"),
            wrong("a whole step for the half -> dt / 2 to the second stage", "dk2 + dt / 2 * dy3", "dk2 + dt * dy3",
                  "factor"),
            wrong("1/6 with eight digits in the last stage -> divide by 6", "dk4 = dout * dt / 6",
                  "dk4 = dout * dt * 0.16666667", "wrong constant")),
    foreign("equilibrium layer", equilibrium_forward, equilibrium_backward,
            (normal(376, 3, 4), 0.2 * normal(377, 4, 4)),
            wrong("the adjoint's iteration stops early -> iterate until it stands still", "range(120)", "range(13)",
                  "missing term", "wrong constant"),
            wrong("adjoint by the untransposed weights -> W.T", "@ W.T", "@ W", "transposed")),
    foreign("volume rendering", render_forward, render_backward,
            (positive(378, 4, 5), positive(379, 4, 5), normal(380, 4, 5, 3)),
            wrong("eps forgotten in what is divided out -> 1 - alpha + eps", "(1 - alpha + eps)", "(1 - alpha)",
                  "wrong constant", "missing term"),
            wrong("a sample's own weight among those behind it -> subtract dwhole", "[:, ::-1] - dwhole", "[:, ::-1]",
                  "extra term", "missing term", "wrong place")),
    foreign("Adam's update", adam_forward, adam_backward, (normal(381, 3, 4), normal(382, 3, 4), positive(383, 3, 4)),
            wrong("eps forgotten -> add eps to the root", "den = root + eps", "den = root", "wrong constant",
                  "missing term"),
            wrong("eps under the root -> add it to the root", "den = root + eps", "den = np.sqrt(vh + eps)",
                  "wrong constant", "extra term", "wrong factor")),
)  # fmt: skip
