"""What the right kernels of blind_second.py should compute, in operations that run in float64 and complex128."""

import numpy as np

from benchmarks.precision.blind_references import sigmoid


def gaussian_nll(x, mu, log_sigma):
    """The negative log-likelihood of each row of x (N, D), without its constant: a mean and a width per column."""
    z = (x - mu) * np.exp(-log_sigma)
    return (z * z / 2 + log_sigma).sum(axis=1), (z, log_sigma)


def gaussian_nll_backward(dy, cache):
    z, log_sigma = cache
    dx = dy[:, None] * z * np.exp(-log_sigma)
    return dx, -dx.sum(axis=0), (dy[:, None] * (1 - z * z)).sum(axis=0)


def leave_one_out(x):
    """Entry i of a row is the product of the row's other entries: x (B, N)."""
    others = [np.delete(x, i, axis=1).prod(axis=1) for i in range(x.shape[1])]
    return np.stack(others, axis=1), x


def leave_one_out_backward(dy, x):
    dx = 0 * x
    for k in range(x.shape[1]):
        for i in range(x.shape[1]):
            if i != k:
                dx[:, k] += dy[:, i] * np.delete(x, (i, k), axis=1).prod(axis=1)
    return (dx,)


def gated(x, w, v):
    """tanh(x w) sigmoid(x v): WaveNet's unit."""
    t, s = np.tanh(x @ w), sigmoid(x @ v)
    return t * s, (x, w, v, t, s)


def gated_backward(dy, cache):
    x, w, v, t, s = cache
    a, b = dy * s * (1 - t * t), dy * t * s * (1 - s)
    return a @ w.T + b @ v.T, x.T @ a, x.T @ b


def mahalanobis(x, mu, root):
    """|(x - mu) root|² for each row."""
    u = (x - mu) @ root
    return (u * u).sum(axis=1), (x - mu, root, u)


def mahalanobis_backward(dy, cache):
    centred, root, u = cache
    du = 2 * dy[:, None] * u
    dx = du @ root.T
    return dx, -dx.sum(axis=0), centred.T @ du


def bumps(x, c, g):
    """exp(-g (x - c)²) of every number x (N,) at every centre c (M,) with its sharpness g (M,)."""
    d = x[:, None] - c
    phi = np.exp(-g * d * d)
    return phi, (d, g, phi)


def bumps_backward(dy, cache):
    d, g, phi = cache
    slope = -2 * g * d * phi * dy
    return slope.sum(axis=1), -slope.sum(axis=0), -(dy * phi * d * d).sum(axis=0)


def dynamic_tanh(x, alpha, gamma, beta):
    """gamma tanh(alpha x) + beta, one number alpha and a gain and a shift per channel: x (N, C)."""
    t = np.tanh(alpha * x)
    return gamma * t + beta, (x, alpha, gamma, t)


def dynamic_tanh_backward(dy, cache):
    x, alpha, gamma, t = cache
    da = dy * gamma * (1 - t * t)
    return da * alpha, (da * x).sum().reshape(1), (dy * t).sum(axis=0), dy.sum(axis=0)


def soft_argmax(x):
    """The mean place of exp(x) on each map (B, H, W), in coordinates from -1 to 1: (B, 2)."""
    rows, columns = np.linspace(-1, 1, x.shape[1])[:, None], np.linspace(-1, 1, x.shape[2])
    e = np.exp(x)
    p = e / e.sum(axis=(1, 2), keepdims=True)
    return np.stack([(p * rows).sum(axis=(1, 2)), (p * columns).sum(axis=(1, 2))], axis=1), (p, rows, columns)


def soft_argmax_backward(dy, cache):
    p, rows, columns = cache
    dp = dy[:, 0, None, None] * rows + dy[:, 1, None, None] * columns
    return (p * (dp - (p * dp).sum(axis=(1, 2), keepdims=True)),)


def standardised(eps):
    """x ŵᵀ, each row of w (O, C) brought to the mean 0 and the variance 1."""

    def forward(x, w):
        centred = w - w.mean(axis=1, keepdims=True)
        r = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
        return x @ (centred * r).T, (x, centred * r, r)

    def backward(dy, cache):
        x, hat, r = cache
        g = dy.T @ x
        dw = r * (g - g.mean(axis=1, keepdims=True) - hat * (g * hat).mean(axis=1, keepdims=True))
        return dy @ hat, dw

    return forward, backward


def binary_loss(weight):
    """The mean over a row of -weight t log σ(x) - (1 - t) log(1 - σ(x)), a weight for each column."""

    def forward(x, t):
        p = sigmoid(x)
        return -(weight * t * np.log(p) + (1 - t) * np.log(1 - p)).mean(axis=1), (p, t)

    def backward(dy, cache):
        p, t = cache
        return (dy[:, None] / p.shape[1] * ((1 - t) * p - weight * t * (1 - p)),)

    return forward, backward


def interpolated(x, p):
    """The rows of x (T, C) at the places p (N,), straight lines between neighbours."""
    i = np.floor(p.real).astype(int)
    f = (p - i)[:, None]
    return (1 - f) * x[i] + f * x[i + 1], (x, i, f)


def interpolated_backward(dy, cache):
    x, i, f = cache
    eye = np.eye(len(x))
    return eye[i].T @ ((1 - f) * dy) + eye[i + 1].T @ (f * dy), (dy * (x[i + 1] - x[i])).sum(axis=1)
