"""Functions with their gradients, right or wrong by a factor, and short ways to ask what a check says of them."""

import functools

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.check import gradcheck
from npformer.check.report import WRONG
from npformer.check.subject import Subject
from npformer.layers import LayerNorm
from tests.outputs import parts

EPS = 1e-5
WITNESSES = pytest.mark.parametrize("options", [{}, {"complex_step": False}], ids=["complex", "central"])


def normals(seed=0):
    """A source of random arrays: each call draws the next one, of its shape."""
    rng = np.random.default_rng(seed)
    return lambda *shape: rng.normal(size=shape)


def normal(*shape, seed=0):
    """The first random array of a seed."""
    return normals(seed)(*shape)


def square(x):
    return x * x, x


def square_backward(dy, x):
    return 2 * dy * x


def forward_alone(forward, *inputs):
    """The subject of a forward whose backward is not asked."""
    return Subject((functools.wraps(forward)(lambda *args: (forward(*args), None)), None), inputs, {}, None)


def only_row(pair, *inputs, **options):
    """The row of a check of one tensor."""
    (row,) = gradcheck(pair, *inputs, **options).rows
    return row


def verdict(pair, *inputs, **options):
    """Without the search for a cause, which takes seconds where there is an error."""
    return only_row(pair, *inputs, **({"explain": False} | options)).verdict


def diagnoses(pair, *inputs, **options):
    """The diagnosis of each tensor that is WRONG."""
    rows = gradcheck(pair, *inputs, **options).rows
    return {row.tensor: row.diagnosis for row in rows if row.verdict == WRONG}


def told(pair, *inputs):
    """The one diagnosis of all tensors that are WRONG."""
    (text,) = set(diagnoses(pair, *inputs).values())
    return text


def verdicts(report):
    return {row.tensor: row.verdict for row in report.rows}


def scaled(name, *factors):
    """The backward, with its gradients multiplied by factors."""
    backward = getattr(F, f"{name}_backward")
    return lambda dy, cache: tuple(f * gradient for f, gradient in zip(factors, backward(dy, cache), strict=True))


def inverse(a):
    return np.linalg.inv(a), np.linalg.inv(a)


def row_mean(x):
    return x.mean(axis=-1, keepdims=True)


LOG = (lambda x: (np.log(x), x), lambda dy, x: dy / x)
SINE = (lambda x: (np.sin(x), x), lambda dy, x: dy * np.cos(x))


def tanh(factor=1.0):
    return lambda x: (np.tanh(x), np.tanh(x)), lambda dy, y: factor * dy * (1 - y * y)


C, CUBE = 0.7978845608028654, 0.044715


def gelu(x):
    """By a tanh, in the precision of x."""
    number = x.real.dtype.type
    t = np.tanh(number(C) * (x + number(CUBE) * x * x * x))
    return number(0.5) * x * (1 + t), (x, t)


def gelu_backward(dy, cache):
    x, t = cache
    number = x.real.dtype.type
    inner = number(C) * (1 + 3 * number(CUBE) * x * x)
    return dy * (number(0.5) * (1 + t) + number(0.5) * x * (1 - t * t) * inner)


GELU = (gelu, gelu_backward)


def of_softmax(x):
    powers = np.exp(x - np.max(x.real, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_slope(dy, y):
    return y * (dy - np.sum(dy * y, axis=-1, keepdims=True))


SOFTMAX = (lambda x: (of_softmax(x), of_softmax(x)), softmax_slope)


def l2_norm(factor=1, size=np.linalg.norm):
    """y = x/‖x‖."""

    def forward(x):
        n = size(x, axis=-1, keepdims=True)
        return x / n, (x / n, n)

    def backward(dy, cache):
        y, n = cache
        return factor * (dy - y * np.sum(dy * y, axis=-1, keepdims=True)) / n

    return forward, backward


def variance(x):
    centred = x - row_mean(x)
    return row_mean(centred * centred)


def layer_norm(statistic=variance, factor=1):
    """LayerNorm without γ and β; statistic(x) is its variance; factor: of the last of three terms."""

    def forward(x):
        r = 1 / np.sqrt(statistic(x) + EPS)
        x_hat = (x - row_mean(x)) * r
        return x_hat, (x_hat, r)

    def backward(dy, cache):
        x_hat, r = cache
        along = factor * x_hat * row_mean(dy * x_hat)
        return r * (dy - row_mean(dy) - along)

    return forward, backward


def spoiled(pair, spoil):
    """The pair, its gradients changed."""
    forward, backward = pair
    return forward, lambda dy, cache: spoil(*parts(backward(dy, cache)))


class Forgetful(LayerNorm):
    """Its backward forgets γ: invisible as long as γ is 1."""

    def backward(self, dy, cache):
        return super().backward(dy, cache) / self.gamma.data


def chain(x, weights):
    return x @ weights[0] @ weights[1], (x, weights)


def chain_backward(dy, cache, factor=1):
    x, (w, v) = cache
    return dy @ v.T @ w.T, [x.T @ dy @ v.T, factor * (x @ w).T @ dy]
