"""Reference pairs of operations on rows and on entries, in elementary operations of NumPy.

Each is (forward, backward) and runs in float64; each forward runs in complex128, too. A rounding of any of its
operations is a rounding that a kernel may have, so none is fused: a softmax is exp, sum and divide.
"""

import math

import numpy as np


def _softmax_forward(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p, p


def _softmax_backward(dy, p):
    return p * (dy - (dy * p).sum(-1, keepdims=True))


softmax = (_softmax_forward, _softmax_backward)


def _log_softmax_forward(x):
    z = x - x.real.max(-1, keepdims=True)
    y = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return y, y


def _log_softmax_backward(dy, y):
    return dy - np.exp(y) * dy.sum(-1, keepdims=True)


log_softmax = (_log_softmax_forward, _log_softmax_backward)


def _logsumexp_forward(x):
    top = x.real.max(-1, keepdims=True)
    e = np.exp(x - top)
    s = e.sum(-1, keepdims=True)
    return (np.log(s) + top)[..., 0], e / s


def _logsumexp_backward(dy, p):
    return p * dy[..., None]


logsumexp = (_logsumexp_forward, _logsumexp_backward)


def _cross_entropy_forward(x, classes):
    z = x - x.real.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1, keepdims=True)
    hot = np.eye(x.shape[-1])[classes]
    return ((np.log(s) - z) * hot).sum() / len(x), (e / s, hot)


def _cross_entropy_backward(dy, cache):
    p, hot = cache
    return dy * (p - hot) / len(p)


cross_entropy = (_cross_entropy_forward, _cross_entropy_backward)


def layer_norm(eps=1e-5):
    """The pair of x (N, C), gamma (C,), beta (C,)."""

    def forward(x, gamma, beta):
        n = x.shape[-1]
        c = x - x.sum(-1, keepdims=True) / n
        r = 1 / np.sqrt((c * c).sum(-1, keepdims=True) / n + eps)
        h = c * r
        return gamma * h + beta, (h, r, gamma)

    def backward(dy, cache):
        h, r, gamma = cache
        n = h.shape[-1]
        g = dy * gamma
        along_one, along_h = g.sum(-1, keepdims=True) / n, (g * h).sum(-1, keepdims=True) / n
        return r * (g - along_one - h * along_h), (dy * h).sum(0), dy.sum(0)

    return forward, backward


def rms_norm(eps=1e-6):
    """The pair of x (N, C), gamma (C,)."""

    def forward(x, gamma):
        r = 1 / np.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + eps)
        h = x * r
        return gamma * h, (h, r, gamma)

    def backward(dy, cache):
        h, r, gamma = cache
        g = dy * gamma
        return r * (g - h * ((g * h).sum(-1, keepdims=True) / h.shape[-1])), (dy * h).sum(0)

    return forward, backward


def _batch_norm_forward(x):
    c = x - x.sum(0) / len(x)
    r = 1 / np.sqrt((c * c).sum(0) / len(x) + 1e-5)
    return c * r, (c * r, r)


def _batch_norm_backward(dy, cache):
    h, r = cache
    return r * (dy - dy.sum(0) / len(h) - h * ((dy * h).sum(0) / len(h)))


batch_norm = (_batch_norm_forward, _batch_norm_backward)


def _unit_forward(x):
    r = 1 / np.sqrt((x * x).sum(-1, keepdims=True))
    return x * r, (x * r, r)


def _unit_backward(dy, cache):
    y, r = cache
    return r * (dy - y * (dy * y).sum(-1, keepdims=True))


unit = (_unit_forward, _unit_backward)  # each row divided by its length


def _tanh_forward(x):
    t = np.tanh(x)
    return t, t


def _tanh_backward(dy, t):
    return dy * (1 - t * t)


tanh = (_tanh_forward, _tanh_backward)


def _saturated_tanh_forward(x):
    e = np.exp(-2 * x)
    return (1 - e) / (1 + e), e


def _saturated_tanh_backward(dy, e):
    return dy * (4 * e / ((1 + e) * (1 + e)))


saturated_tanh = (_saturated_tanh_forward, _saturated_tanh_backward)  # no cancellation where tanh is near 1


def _softplus_forward(x):
    e = np.exp(-x)
    return np.log(1 + e), e


def _softplus_backward(dy, e):
    return -dy * (e / (1 + e))


softplus = (_softplus_forward, _softplus_backward)  # log(1 + e⁻ˣ), the loss of a sigmoid whose class is 1


_N = np.arange(170)
_SERIES = np.cumprod(np.concatenate([[1.0], 2 / (2 * _N[1:] + 1)]))  # 2ⁿ/(2n + 1)!!


def erf(x):
    """2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1)/(2n+1)!!, a sum of terms of one sign; ±1 beyond 6, where float64 has no more."""
    x = np.where(x.real > 6, 6, np.where(x.real < -6, -6, x))
    square = x * x
    return 2 / math.sqrt(math.pi) * np.exp(-square) * x * (_SERIES * square[..., None] ** _N).sum(-1)


def _gelu_forward(x):
    share = 0.5 * (1 + erf(x / math.sqrt(2)))
    return x * share, (x, share)


def _gelu_backward(dy, cache):
    x, share = cache
    return dy * (share + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


gelu = (_gelu_forward, _gelu_backward)

ROOT, CUBE = math.sqrt(2 / math.pi), 0.044715


def _gelu_tanh_forward(x):
    t = np.tanh(ROOT * (x + CUBE * x * x * x))
    return 0.5 * x * (1 + t), (x, t)


def _gelu_tanh_backward(dy, cache):
    x, t = cache
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (ROOT * (1 + 3 * CUBE * x * x)))


gelu_tanh = (_gelu_tanh_forward, _gelu_tanh_backward)


def _silu_forward(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, (x, s)


def _silu_backward(dy, cache):
    x, s = cache
    return dy * (s * (1 + x * (1 - s)))


silu = (_silu_forward, _silu_backward)


def _swiglu_forward(gate, up):
    s = 1 / (1 + np.exp(-gate))
    return gate * s * up, (gate, up, s)


def _swiglu_backward(dy, cache):
    gate, up, s = cache
    return dy * up * (s * (1 + gate * (1 - s))), dy * (gate * s)


swiglu = (_swiglu_forward, _swiglu_backward)
