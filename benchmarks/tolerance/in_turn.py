"""Right kernels in NumPy as people write them for a GPU: float32 inside, sums one term after the other.

Each is a function of a Storage: what the kernel returns, and what it keeps for its backward, is stored there.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.precision.references import CUBE, ROOT
from benchmarks.precision.references_of_products import turns
from npformer.functional.erf import erf


class Storage(NamedTuple):
    """keep(x): x as it is stored, in float32 arrays; product(a, b): a @ b."""

    keep: Callable[[Any], Any]
    product: Callable[[Any, Any], Any]


def exp(x):
    """As a GPU does: by 2ˣ, which is what its units compute."""
    return np.exp2(x * np.float32(math.log2(math.e)))


_SQUARES = np.linspace(0.01, 0.31, 400)
#: (tanh x/x − 1)/x² as a polynomial of x², for |x| < 0.55.
SLOPES = np.polyfit(_SQUARES, (np.tanh(_SQUARES**0.5) / _SQUARES**0.5 - 1) / _SQUARES, 6).astype(np.float32)


def tanh_of(x):
    """By exp alone, as in languages without tanh: near 0 a polynomial, else (e − 1)/(e + 1)."""
    square, e = x * x, exp(2 * x)
    near = x + x * square * np.polyval(SLOPES, np.minimum(square, np.float32(0.31)))
    return np.where(np.abs(x) < 0.55, near, (e - 1) / (e + 1))


def tanh_by_sigmoid(x):
    """As most GELUs are written where there is no tanh: right to one rounding of 1, not of tanh x."""
    return 2 / (1 + exp(-2 * x)) - 1


def total(x, axis=-1):
    """The sum along an axis, which is kept, term after term in float32."""
    return np.cumsum(x, axis=axis, dtype=np.float32).take([-1], axis)


def product(a, b):
    """a @ b, term after term in float32."""
    return np.cumsum(a[..., :, :, None] * b[..., None, :, :], axis=-2, dtype=np.float32)[..., -1, :]


def flipped(x):
    """The transpose of the last two axes."""
    return x.swapaxes(-1, -2)


def softmax(s):
    def forward(x):
        e = exp(x - x.max(-1, keepdims=True))
        y = s.keep(e / total(e))
        return y, y

    def backward(dy, y):
        return s.keep(y * (dy - total(dy * y)))

    return forward, backward


def log_softmax(s):
    def forward(x):
        z = x - x.max(-1, keepdims=True)
        y = s.keep(z - np.log(total(exp(z))))
        return y, y

    def backward(dy, y):
        return s.keep(dy - exp(y) * total(dy))

    return forward, backward


def logsumexp(s):
    def forward(x):
        top = x.max(-1, keepdims=True)
        y = top + np.log(total(exp(x - top)))
        return s.keep(y[..., 0]), (x, y)

    def backward(dy, cache):
        x, y = cache
        return s.keep(exp(x - y) * dy[..., None])

    return forward, backward


def cross_entropy(s):
    def forward(x, classes):
        z = x - x.max(-1, keepdims=True)
        log_p = z - np.log(total(exp(z)))
        rows = np.arange(len(x))
        return s.keep(-total(log_p[rows, classes])[0] / np.float32(len(x))), (log_p, classes)

    def backward(dy, cache):
        log_p, classes = cache
        dx = exp(log_p)
        dx[np.arange(len(dx)), classes] -= 1
        return s.keep(dx * (dy / np.float32(len(dx))))

    return forward, backward


def layer_norm(s):
    def forward(x, gamma, beta):
        mean, square = total(x) / x.shape[-1], total(x * x) / x.shape[-1]
        r = 1 / np.sqrt(square - mean * mean + np.float32(1e-5))
        h = (x - mean) * r
        return s.keep(gamma * h + beta), (s.keep(h), r, gamma)

    def backward(dy, cache):
        h, r, gamma = cache
        g = dy * gamma
        dx = r * (g - total(g) / g.shape[-1] - h * total(g * h) / g.shape[-1])
        return s.keep(dx), s.keep(total(dy * h, 0)[0]), s.keep(total(dy, 0)[0])

    return forward, backward


def rms_norm(s):
    def forward(x, gamma):
        r = 1 / np.sqrt(total(x * x) / x.shape[-1] + np.float32(1e-6))
        return s.keep(x * r * gamma), (x, r, gamma)

    def backward(dy, cache):
        x, r, gamma = cache
        g = dy * gamma
        dx = r * g - x * (r * r * r * total(g * x) / x.shape[-1])
        return s.keep(dx), s.keep(total(dy * x * r, 0)[0])

    return forward, backward


def batch_norm(s):
    """The norm of columns: that of rows, with its axes exchanged."""

    def forward(x, gamma, beta):
        mean = total(x, 0) / len(x)
        r = 1 / np.sqrt(total((x - mean) ** 2, 0) / len(x) + np.float32(1e-5))
        return s.keep((x - mean) * (r * gamma) + beta), (x, mean, r, gamma)

    def backward(dy, cache):
        x, mean, r, gamma = cache
        h, n = (x - mean) * r, np.float32(len(x))
        dgamma, dbeta = total(dy * h, 0), total(dy, 0)
        return s.keep(gamma * r / n * (n * dy - dbeta - h * dgamma)), s.keep(dgamma[0]), s.keep(dbeta[0])

    return forward, backward


def unit(s):
    def forward(x):
        r = 1 / np.sqrt(total(x * x))
        return s.keep(x * r), (x, r)

    def backward(dy, cache):
        x, r = cache
        return s.keep(r * dy - x * (r * r * r * total(dy * x)))

    return forward, backward


def gelu(s):
    def forward(x):
        return s.keep(x * (0.5 * (1 + erf(x * np.float32(math.sqrt(0.5)))))), x

    def backward(dy, x):
        below = 0.5 * (1 + erf(x * np.float32(math.sqrt(0.5))))
        return s.keep(dy * (below + x * exp(-0.5 * x * x) * np.float32(1 / math.sqrt(2 * math.pi))))

    return forward, backward


def gelu_tanh(s):
    def forward(x):
        return s.keep(0.5 * x * (1 + tanh_by_sigmoid(np.float32(ROOT) * (x + np.float32(CUBE) * x**3)))), x

    def backward(dy, x):
        t = tanh_by_sigmoid(np.float32(ROOT) * (x + np.float32(CUBE) * x**3))
        slope = np.float32(ROOT) * (1 + np.float32(3 * CUBE) * x * x)
        return s.keep(dy * 0.5 * (1 + t + x * (1 - t * t) * slope))

    return forward, backward


def silu(s):
    def forward(x):
        return s.keep(x / (1 + exp(-x))), x

    def backward(dy, x):
        p = 1 / (1 + exp(-x))
        return s.keep(dy * (p + x * p * (1 - p)))

    return forward, backward


def swiglu(s):
    def forward(gate, up):
        return s.keep(gate / (1 + exp(-gate)) * up), (gate, up)

    def backward(dy, cache):
        gate, up = cache
        p = 1 / (1 + exp(-gate))
        return s.keep(dy * up * (p + gate * p * (1 - p))), s.keep(dy * gate * p)

    return forward, backward


def tanh(s):
    def forward(x):
        y = s.keep(tanh_of(x))
        return y, y

    def backward(dy, y):
        return s.keep(dy * (1 - y * y))

    return forward, backward


def linear(s):
    def forward(x, weight, bias):
        return s.keep(s.product(x, weight) + bias), (x, weight)

    def backward(dy, cache):
        x, weight = cache
        return s.keep(s.product(dy, weight.T)), s.keep(s.product(x.T, dy)), s.keep(total(dy, 0)[0])

    return forward, backward


def attention(s):
    def forward(q, k, v, mask=True):
        scores = s.product(q, flipped(k)) * np.float32(1 / math.sqrt(q.shape[-1]))
        e = exp(np.where(mask, scores - np.where(mask, scores, -np.inf).max(-1, keepdims=True), -np.inf))
        p = s.keep(e / total(e))
        return s.keep(s.product(p, v)), (q, k, v, p)

    def backward(dy, cache):
        q, k, v, p = cache
        dp = s.product(dy, flipped(v))
        ds = s.keep(p * (dp - total(p * dp)) * np.float32(1 / math.sqrt(q.shape[-1])))
        return s.keep(s.product(ds, k)), s.keep(s.product(flipped(ds), q)), s.keep(s.product(flipped(p), dy))

    return forward, backward


def mlp(s):
    forward_inside, backward_inside = silu(s)

    def forward(x, w1, w2):
        a, h = forward_inside(s.keep(s.product(x, w1)))
        return s.keep(s.product(a, w2)), (x, w1, w2, a, h)

    def backward(dy, cache):
        x, w1, w2, a, h = cache
        dh = backward_inside(s.keep(s.product(dy, w2.T)), h)
        return s.keep(s.product(dh, w1.T)), s.keep(s.product(x.T, dh)), s.keep(s.product(a.T, dy))

    return forward, backward


def embedding(s):
    def forward(table, ids):
        return table[ids], (table.shape, ids)

    def backward(dy, cache):
        shape, ids = cache
        dtable = np.zeros(shape, dtype=np.float32)
        np.add.at(dtable, ids, dy)
        return s.keep(dtable)

    return forward, backward


def rotary(s):
    def turned(x, sign):
        cosines, sines = (part.astype(np.float32) for part in turns(*x.shape))
        low, high = np.split(x, 2, axis=-1)
        return s.keep(np.concatenate([low * cosines - sign * high * sines, high * cosines + sign * low * sines], -1))

    return lambda x: (turned(x, 1), None), lambda dy, _: turned(dy, -1)


def squared_error(s):
    def forward(x, target):
        d = x - target
        return s.keep(total((d * d).ravel())[0] / np.float32(d.size)), d

    def backward(dy, d):
        dx = dy * d * np.float32(2 / d.size)
        return s.keep(dx), s.keep(-dx)

    return forward, backward
