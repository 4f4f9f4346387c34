"""Activations and gates."""

import math

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, normals, wrong


def sig(z):
    return 1 / (1 + np.exp(-z))


def abs_forward(x):
    return np.abs(x), x


def abs_backward(dy, x):
    return dy * np.sign(x)


def softplus_forward(x, beta=2.0):
    return np.maximum(x, 0) + np.log1p(np.exp(-beta * np.abs(x))) / beta, (x, beta)


def softplus_backward(dy, cache):
    x, beta = cache
    return dy * sig(beta * x)


def gelu_tanh_forward(x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), (x, t)


def gelu_tanh_backward(dy, cache):
    x, t = cache
    c = math.sqrt(2 / math.pi)
    du = c * (1 + 3 * 0.044715 * x**2)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du)


_erf = np.vectorize(math.erf, otypes=[float])


def gelu_erf_forward(x):
    cdf = (0.5 * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)
    return x * cdf, (x, cdf)


def gelu_erf_backward(dy, cache):
    x, cdf = cache
    pdf = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return dy * (cdf + x * pdf)


def silu(x):
    s = sig(x)
    return x * s, (x, s)


def silu_grad(dout, cache):
    x, s = cache
    return dout * (s + x * s * (1 - s))


def mish_forward(x):
    t = np.tanh(np.logaddexp(0, x))
    return x * t, (x, t)


def mish_backward(dy, cache):
    x, t = cache
    return dy * (t + x * (1 - t * t) * sig(x))


def elu_forward(x, alpha=1.3):
    y = np.where(x > 0, x, alpha * (np.exp(x) - 1))
    return y, (x, y, alpha)


def elu_backward(dy, cache):
    x, y, alpha = cache
    return dy * np.where(x > 0, 1.0, y + alpha).astype(dy.dtype)


ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805


def selu_forward(x):
    return SCALE * np.where(x >= 0, x, ALPHA * np.expm1(x)), x


def selu_backward(dy, x):
    return dy * SCALE * np.where(x >= 0, np.ones_like(x), ALPHA * np.exp(x))


def hardswish_forward(x):
    gate = np.clip(x + 3, 0, 6) / 6
    return x * gate, (x, gate)


def hardswish_backward(dy, cache):
    x, gate = cache
    inside = (x > -3) & (x < 3)
    return dy * (gate + x * inside / 6)


def leaky_relu_forward(x, slope=0.1):
    return np.maximum(x, slope * x), (x, slope)


def leaky_relu_backward(dy, cache):
    x, slope = cache
    dx = np.array(dy)
    dx[x < 0] *= slope
    return dx


def prelu_forward(x, a):
    return np.where(x > 0, x, a * x), (x, a)


def prelu_backward(dy, cache):
    x, a = cache
    dx = np.where(x > 0, dy, dy * a)
    da = np.sum(np.where(x > 0, 0, dy * x), axis=0)
    return dx, da


def maxout_forward(x, pieces=3):
    parts = x.reshape(x.shape[0], -1, pieces)
    best = parts.argmax(axis=-1)
    return parts.max(axis=-1), (best, x.shape, pieces)


def maxout_backward(dy, cache):
    best, shape, pieces = cache
    onehot = np.arange(pieces) == best[..., None]
    return (dy[..., None] * onehot).reshape(shape)


def glu_forward(x):
    a, b = np.split(x, 2, axis=-1)
    g = sig(b)
    return a * g, (a, g)


def glu_backward(dy, cache):
    a, g = cache
    return np.concatenate([dy * g, dy * a * g * (1 - g)], axis=-1)


def swiglu_forward(x, W1, W2, W3):
    h = x @ W1
    u = x @ W2
    s = sig(h)
    act = h * s
    return (act * u) @ W3, (x, W1, W2, W3, h, u, s, act)


def swiglu_backward(dy, cache):
    x, W1, W2, W3, h, u, s, act = cache
    dz = dy @ W3.T
    dW3 = (act * u).T @ dy
    du = dz * act
    dh = dz * u * s * (1 + h * (1 - s))
    dx = dh @ W1.T + du @ W2.T
    return dx, x.T @ dh, x.T @ du, dW3


def geglu_forward(a, b):
    t = np.tanh(0.7978845608028654 * (b + 0.044715 * b * b * b))
    gate = b * (1 + t) / 2
    return a * gate, (a, b, t, gate)


def geglu_backward(dy, cache):
    a, b, t, gate = cache
    inner = 0.7978845608028654 * (1 + 0.134145 * b * b)
    db = dy * a * ((1 + t) / 2 + b / 2 * (1 - t * t) * inner)
    return dy * gate, db


PAIRS = (
    foreign("abs", abs_forward, abs_backward, apart(31, 3, 4),
            wrong("derivative left out", "dy * np.sign(x)", "dy", "missing factor", "sign", "wrong branch")),
    foreign("softplus", softplus_forward, softplus_backward, apart(32, 3, 4),
            wrong("beta left out", "sig(beta * x)", "sig(x)", "missing factor", "wrong factor", "factor")),
    foreign("GELU, tanh", gelu_tanh_forward, gelu_tanh_backward, normal(33, 3, 4),
            wrong("few digits", "0.044715", "0.0447", "wrong constant"),
            wrong("few digits of √(2/π)", "c = math.sqrt(2 / math.pi)", "c = 0.7979", "wrong constant"),
            wrong("the 3 of the cube", "3 * 0.044715", "0.044715", "wrong constant", "factor")),
    foreign("GELU, erf", gelu_erf_forward, gelu_erf_backward, normal(34, 3, 4),
            wrong("density of another width", "math.sqrt(2 * math.pi)", "math.sqrt(math.pi)", "wrong constant",
                  "factor"),
            wrong("few digits", "/ math.sqrt(2 * math.pi)", "* 0.3989", "wrong constant")),
    foreign("SiLU", silu, silu_grad, normal(35, 3, 4),
            wrong("x left out", "s + x * s * (1 - s)", "s + s * (1 - s)", "missing factor", "wrong factor")),
    foreign("Mish", mish_forward, mish_backward, normal(36, 3, 4),
            wrong("derivative of softplus left out", " * sig(x)", "", "missing factor")),
    foreign("ELU", elu_forward, elu_backward, apart(37, 3, 4),
            wrong("alpha not added", "y + alpha", "y", "missing term", "wrong branch")),
    foreign("SELU", selu_forward, selu_backward, apart(38, 3, 4),
            wrong("few digits", "ALPHA", "1.673", "wrong constant", "factor"),
            wrong("scale left out", "dy * SCALE *", "dy *", "factor", "wrong constant", "missing factor")),
    foreign("hard-swish", hardswish_forward, hardswish_backward, apart(39, 4, 5, gap=0.43),
            wrong("gate held constant", " + x * inside / 6", "", "missing term")),
    foreign("leaky ReLU", leaky_relu_forward, leaky_relu_backward, apart(40, 3, 4),
            wrong("the other branch", "x < 0", "x > 0", "wrong branch"),
            options={"slope": 0.2}),
    foreign("PReLU", prelu_forward, prelu_backward, (apart(41, 4, 3), apart(42, 3)),
            wrong("slope's gradient where x is positive", "np.where(x > 0, 0, dy * x)", "np.where(x > 0, dy * x, 0)",
                  "wrong branch")),
    foreign("maxout", maxout_forward, maxout_backward, apart(43, 3, 6),
            wrong("to all pieces", "(dy[..., None] * onehot)", "(dy[..., None] * (onehot | True))", "missing factor",
                  "wrong branch")),
    foreign("GLU", glu_forward, glu_backward, normal(44, 3, 6),
            wrong("halves exchanged", "[dy * g, dy * a * g * (1 - g)]", "[dy * a * g * (1 - g), dy * g]",
                  "swapped outputs", "reshaped")),
    foreign("SwiGLU", swiglu_forward, swiglu_backward, normals(45, (3, 4), (4, 5), (4, 5), (5, 3)),
            wrong("one branch forgotten in dx", " + du @ W2.T", "", "missing term"),
            wrong("h left out", "(1 + h * (1 - s))", "(1 - s)", "missing factor", "missing term")),
    foreign("GEGLU", geglu_forward, geglu_backward, normals(49, (3, 4), (3, 4)),
            wrong("few digits of 3·0.044715", "0.134145", "0.1341", "wrong constant"),
            wrong("gradients exchanged", "return dy * gate, db", "return db, dy * gate", "swapped outputs")),
)  # fmt: skip
