"""Normalisations."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, positive, wrong


def layernorm_forward(x, gamma, beta, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    inv = 1.0 / np.sqrt(var + eps)
    xhat = (x - mu) * inv
    return gamma * xhat + beta, (xhat, inv, gamma)


def layernorm_backward(dout, cache):
    xhat, inv, gamma = cache
    N = xhat.shape[-1]
    dxhat = dout * gamma
    s1 = np.sum(dxhat, axis=-1, keepdims=True)
    s2 = np.sum(dxhat * xhat, axis=-1, keepdims=True)
    dx = inv / N * (N * dxhat - s1 - xhat * s2)
    return dx, np.sum(dout * xhat, axis=(0, 1)), np.sum(dout, axis=(0, 1))


def ln_std_forward(x, g, b):
    mean = np.mean(x, axis=1, keepdims=True)
    std = np.std(x, axis=1, keepdims=True)
    x_norm = (x - mean) / (std + 1e-6)
    return x_norm * g + b, (x, mean, std, x_norm, g)


def ln_std_backward(dy, cache):
    x, mean, std, x_norm, g = cache
    n = x.shape[1]
    dn = dy * g
    denom = std + 1e-6
    dstd = -np.sum(dn * (x - mean), axis=1, keepdims=True) / denom**2
    dx = dn / denom + dstd * (x - mean) / (n * std)
    dx = dx - np.mean(dn / denom, axis=1, keepdims=True)
    return dx, (dy * x_norm).sum(axis=0), dy.sum(axis=0)


def batchnorm_fwd(x, gamma, beta, eps=1e-5):
    mu = np.mean(x, axis=0)
    var = np.var(x, axis=0)
    std = np.sqrt(var + eps)
    xn = (x - mu) / std
    return gamma * xn + beta, (xn, std, gamma)


def batchnorm_bwd(dout, cache):
    xn, std, gamma = cache
    m = dout.shape[0]
    dbeta = np.sum(dout, axis=0)
    dgamma = np.sum(xn * dout, axis=0)
    dx = gamma / (m * std) * (m * dout - dbeta - xn * dgamma)
    return dx, dgamma, dbeta


def spatial_bn_forward(x, w, b):
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    var = x.var(axis=(0, 2, 3), keepdims=True)
    x_hat = (x - mean) / np.sqrt(var + 1e-5)
    return w[None, :, None, None] * x_hat + b[None, :, None, None], (x_hat, var, w)


def spatial_bn_backward(dy, cache):
    x_hat, var, w = cache
    axes = (0, 2, 3)
    dxh = dy * w[None, :, None, None]
    dx = dxh - dxh.mean(axis=axes, keepdims=True) - x_hat * (dxh * x_hat).mean(axis=axes, keepdims=True)
    return dx / np.sqrt(var + 1e-5), (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)


def groupnorm_forward(x, gamma, beta, groups=2):
    N, C, L = x.shape
    xg = x.reshape(N, groups, -1)
    mu = xg.mean(axis=2, keepdims=True)
    var = xg.var(axis=2, keepdims=True)
    rstd = 1 / np.sqrt(var + 1e-5)
    xhat = ((xg - mu) * rstd).reshape(N, C, L)
    return xhat * gamma[:, None] + beta[:, None], (xhat, rstd, gamma, groups)


def groupnorm_backward(dy, cache):
    xhat, rstd, gamma, groups = cache
    N, C, L = dy.shape
    dxhat = (dy * gamma[:, None]).reshape(N, groups, -1)
    xg = xhat.reshape(N, groups, -1)
    a = dxhat.mean(axis=2, keepdims=True)
    b = (dxhat * xg).mean(axis=2, keepdims=True)
    dx = (dxhat - a - xg * b) * rstd
    return dx.reshape(N, C, L), (dy * xhat).sum(axis=(0, 2)), dy.sum(axis=(0, 2))


def instancenorm_forward(img, eps=1e-5):
    m = img.mean(axis=(2, 3), keepdims=True)
    s = np.sqrt(img.var(axis=(2, 3), keepdims=True) + eps)
    out = (img - m) / s
    return out, (out, s)


def instancenorm_backward(dout, cache):
    out, s = cache
    inner = np.mean(dout * out, axis=(2, 3), keepdims=True)
    return (dout - np.mean(dout, axis=(2, 3), keepdims=True) - out * inner) / s


def rmsnorm_forward(x, weight, eps=1e-6):
    rms = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
    return x / rms * weight, (x, rms, weight)


def rmsnorm_backward(grad, cache):
    x, rms, weight = cache
    d = x.shape[-1]
    gw = grad * weight
    proj = np.sum(gw * x, axis=-1, keepdims=True)
    dx = gw / rms - x * proj / (d * rms**3)
    return dx, np.sum(grad * x / rms, axis=0)


def weightnorm_forward(x, v, g):
    n = np.linalg.norm(v, axis=0)
    w = v * (g / n)
    return x @ w, (x, v, g, n, w)


def weightnorm_backward(dy, cache):
    x, v, g, n, w = cache
    dw = x.T @ dy
    u = v / n
    dg = np.sum(dw * u, axis=0)
    dv = g / n * (dw - u * dg)
    return dy @ w.T, dv, dg


def l2_normalize(x):
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / norm, (x, norm)


def l2_normalize_grad(dy, cache):
    x, norm = cache
    u = x / norm
    return (dy - u * np.sum(dy * u, axis=-1, keepdims=True)) / norm


def zca_center_forward(x):
    return x - x.mean(axis=0), x.shape[0]


def zca_center_backward(dy, n):
    return dy - dy.sum(axis=0) / n


PAIRS = (
    foreign("layer norm, np.var", layernorm_forward, layernorm_backward,
            (normal(1, 3, 4, 5), positive(2, 5), normal(3, 5)),
            wrong("no x-hat term", " - xhat * s2", "", "missing term"),
            wrong("no mean term", " - s1", "", "missing term"),
            wrong("gamma left out of dx", "dxhat = dout * gamma", "dxhat = dout", "missing factor", "wrong factor"),
            wrong("dgamma over one axis, then the mean", "np.sum(dout * xhat, axis=(0, 1))",
                  "np.mean(dout * xhat, axis=(0, 1))", "summed axis", "factor")),
    foreign("layer norm, np.std", ln_std_forward, ln_std_backward, (normal(4, 4, 6), positive(5, 6), normal(6, 6)),
            wrong("no gradient through the deviation", " + dstd * (x - mean) / (n * std)", "", "missing term")),
    foreign("batch norm", batchnorm_fwd, batchnorm_bwd, (normal(7, 6, 4), positive(8, 4), normal(9, 4)),
            wrong("dgamma and dbeta exchanged", "return dx, dgamma, dbeta", "return dx, dbeta, dgamma",
                  "swapped outputs"),
            wrong("variance held constant", " - xn * dgamma", "", "missing term")),
    foreign("batch norm of images", spatial_bn_forward, spatial_bn_backward,
            (normal(10, 3, 2, 3, 2), positive(11, 2), normal(12, 2)),
            wrong("variance for deviation", "dx / np.sqrt(var + 1e-5)", "dx / (var + 1e-5)", "wrong factor", "factor",
                  "missing factor")),
    foreign("group norm", groupnorm_forward, groupnorm_backward, (normal(13, 2, 4, 3), positive(14, 4), normal(15, 4)),
            wrong("statistics of single channels", "a = dxhat.mean(axis=2, keepdims=True)",
                  "a = dxhat.mean(axis=1, keepdims=True)", "summed axis")),
    foreign("instance norm", instancenorm_forward, instancenorm_backward, normal(16, 2, 3, 2, 3),
            wrong("mean over one axis of two", "np.mean(dout * out, axis=(2, 3), keepdims=True)",
                  "np.mean(dout * out, axis=3, keepdims=True)", "summed axis")),
    foreign("RMS norm", rmsnorm_forward, rmsnorm_backward, (normal(17, 4, 5), positive(18, 5)),
            wrong("power of the norm", "rms**3", "rms**2", "missing factor", "wrong factor"),
            wrong("size left out", "(d * rms**3)", "rms**3", "factor")),
    foreign("weight norm", weightnorm_forward, weightnorm_backward,
            (normal(19, 4, 3), normal(20, 3, 5), positive(21, 5)),
            wrong("direction not projected out", "(dw - u * dg)", "dw", "missing term")),
    foreign("l2 normalise", l2_normalize, l2_normalize_grad, normal(22, 4, 3),
            wrong("whole norm", "axis=-1, keepdims=True)", "keepdims=True)", "summed axis")),
    foreign("centring", zca_center_forward, zca_center_backward, normal(23, 5, 3),
            wrong("mean over the features", "dy.sum(axis=0) / n", "dy.mean(axis=1, keepdims=True)", "summed axis")),
)  # fmt: skip
