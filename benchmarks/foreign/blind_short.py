"""Short pairs: a norm far from zero, activations, entropies, distances."""

import math

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, positive, softmax, wrong


def offset_norm_forward(x, gamma, beta, eps=3e-4):
    mu = x.mean(axis=1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * gamma + beta, (x, mu, gamma, eps)


def offset_norm_backward(dy, cache):
    x, mu, gamma, eps = cache
    n = x.shape[1]
    var = ((x - mu) ** 2).mean(axis=1, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    dxhat = dy * gamma
    dvar = -0.5 * (dxhat * (x - mu)).sum(axis=1, keepdims=True) * r**3
    dmu = -(dxhat * r).sum(axis=1, keepdims=True)
    dx = dxhat * r + dvar * 2 * (x - mu) / n + dmu / n
    return dx, (dy * (x - mu) * r).sum(axis=0), dy.sum(axis=0)


def biased_gelu_forward(x, b):
    u = x + b
    t = np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))
    return 0.5 * u * (1 + t), (u, t)


def biased_gelu_backward(dy, cache):
    u, t = cache
    dinner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * u**2)
    du = dy * (0.5 * (1 + t) + 0.5 * u * (1 - t**2) * dinner)
    return du, du.sum(axis=0)


def scaled_selu_forward(x, gain):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    s = scale * np.where(x > 0, x, alpha * np.expm1(x))
    return gain * s, (x, s, gain)


def scaled_selu_backward(dy, cache):
    x, s, gain = cache
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    ds = scale * np.where(x > 0, 1, alpha * np.exp(x))
    return dy * gain * ds, (dy * s).sum(axis=0)


def masked_entropy_forward(logits, mask):
    p = softmax(np.where(mask, logits, -np.inf))
    return -(p * np.log(np.where(mask, p, 1))).sum(axis=1), (p, mask)


def masked_entropy_backward(dh, cache):
    p, mask = cache
    logp = np.log(np.where(mask, p, 1))
    dp = -dh[:, None] * (logp + 1)
    return p * (dp - (dp * p).sum(axis=1, keepdims=True))


def bits_forward(logits, labels):
    p = softmax(logits)
    bits = -np.log(p[np.arange(len(p)), labels]).mean() / math.log(2)
    perplexity = 2**bits
    return (bits, perplexity), (p, labels, perplexity)


def bits_backward(dout, cache):
    dbits, dperplexity = dout
    p, labels, perplexity = cache
    dbits = dbits + dperplexity * perplexity * math.log(2)
    dnats = dbits / math.log(2)
    d = p.copy()
    d[np.arange(len(p)), labels] -= 1
    return d * dnats / len(p)


def cutoff_forward(x, q, radius=2.7):
    d = x[:, None] - x[None, :]
    r = np.sqrt((d**2).sum(axis=-1))
    near = (r < radius) & ~np.eye(len(x), dtype=bool)
    f = np.where(near, 0.5 + 0.5 * np.cos(math.pi * r / radius), 0)
    return f @ q, (d, r, near, f, q, radius)


def cutoff_backward(dy, cache):
    d, r, near, f, q, radius = cache
    df = dy[:, None] * q[None, :]
    dr = np.where(near, -df * 0.5 * math.pi / radius * np.sin(math.pi * r / radius), 0)
    unit = d / np.where(near, r, 1)[:, :, None]
    dd = dr[:, :, None] * unit
    return dd.sum(axis=1) - dd.sum(axis=0), f.T @ dy


SEEN = np.array([[True, True, False, True, True], [True, False, True, True, False], [True, True, True, True, True]])
LABELS = np.array([2, 0, 2, 1])

PAIRS = (
    foreign("layer norm far from zero", offset_norm_forward, offset_norm_backward,
            (3000 + normal(421, 3, 6), positive(422, 6), normal(423, 6)),
            wrong("variance as the mean square less the squared mean, which cancels -> mean of (x - mu)**2",
                  "((x - mu) ** 2).mean(axis=1, keepdims=True)", "(x**2).mean(axis=1, keepdims=True) - mu**2",
                  "wrong factor", "wrong constant"),
            wrong("variance's gradient with the opposite sign -> minus one half", "-0.5 * (dxhat", "0.5 * (dxhat",
                  "sign")),
    foreign("bias and GELU", biased_gelu_forward, biased_gelu_backward, (normal(424, 4, 4), normal(425, 4)),
            wrong("√(2/π) with seven digits -> math.sqrt(2 / math.pi)", "math.sqrt(2 / math.pi)", "0.7978846",
                  "wrong constant"),
            wrong("bias summed over its own axis -> sum over the rows, axis 0", "du.sum(axis=0)", "du.sum(axis=1)",
                  "summed axis")),
    foreign("SELU with a gain", scaled_selu_forward, scaled_selu_backward, (apart(426, 4, 3), positive(427, 3)),
            wrong("alpha with eight digits -> 1.6732632423543772", "1.6732632423543772", "1.6732632",
                  "wrong constant"),
            wrong("branches exchanged -> the slope is one above zero", "x > 0", "x < 0", "wrong branch")),
    foreign("entropy, masked", masked_entropy_forward, masked_entropy_backward, (normal(428, 3, 5), SEEN),
            wrong("1e-9 added inside the logarithm -> the logarithm of p alone", "np.where(mask, p, 1))",
                  "np.where(mask, p, 1) + 1e-9)", "extra term", "wrong constant"),
            wrong("logarithm of masked probabilities, which are 0 -> put 1 where masked",
                  "np.log(np.where(mask, p, 1))", "np.log(p)", "not finite")),
    foreign("bits and perplexity", bits_forward, bits_backward, (normal(429, 4, 3), LABELS),
            wrong("log 2 with seven digits -> math.log(2)", "dbits / math.log(2)", "dbits / 0.6931472",
                  "wrong constant"),
            wrong("perplexity's own value left out of its derivative -> multiply by perplexity",
                  "dperplexity * perplexity", "dperplexity", "missing factor", "factor")),
    foreign("neighbours within a radius", cutoff_forward, cutoff_backward, (normal(430, 5, 3), normal(431, 5)),
            wrong("π with eight digits -> math.pi", "-df * 0.5 * math.pi", "-df * 0.5 * 3.1415927", "wrong constant"),
            wrong("a point's distance 0 from itself divides -> put 1 where not near", "np.where(near, r, 1)", "r",
                  "not finite"),
            wrong("the other point pulled the same way -> subtract", "dd.sum(axis=1) - dd", "dd.sum(axis=1) + dd",
                  "sign")),
)  # fmt: skip
