"""Right kernels in bfloat16 and float16 that compute in float32, by polynomials, Newton steps and blocks."""

import numpy as np

from benchmarks.precision import blind_second_references as references
from benchmarks.precision.blind_right import half, normal, single
from benchmarks.precision.kernel import bfloat16, right

TERMS = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


def polynomial_exp(x):
    """exp(x) as a power of two times a polynomial of degree 7, good to 6e-9 before it is rounded."""
    power = np.rint(x * 1.4426950408889634)
    rest = (x - power * 0.693359375) + power * 2.1219444005469057e-4  # ln 2 in two parts
    y = 0 * x
    for term in TERMS:
        y = y * rest + term
    return np.ldexp(y, power.astype(np.int32))


def bumps_forward(x, c, g):
    away = x[:, None] - c
    return bfloat16(polynomial_exp(-g * away * away)), (away, g)


def bumps_backward(dy, cache):
    away, g = cache
    weight = dy * polynomial_exp(-g * away * away)
    slope = 2 * weight * away * g
    return bfloat16(-slope.sum(axis=1)), bfloat16(slope.sum(axis=0)), bfloat16(-(weight * away * away).sum(axis=0))


ROWS = 64


def dynamic_forward(x, alpha, gamma, beta):
    return bfloat16(np.tanh(alpha * x) * gamma + beta), (x, alpha, gamma)


def dynamic_backward(dy, cache):
    """The gradients of the parameters are summed over blocks of rows in float32 and rounded once."""
    x, alpha, gamma = cache
    dx, dgamma, dbeta, dalpha = np.empty_like(x), 0 * gamma, 0 * gamma, 0 * alpha
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        t = np.tanh(alpha * x[rows])
        dgamma += (dy[rows] * t).sum(axis=0)
        dbeta += dy[rows].sum(axis=0)
        inner = dy[rows] * gamma * (1 - t) * (1 + t)
        dalpha += (inner * x[rows]).sum()
        dx[rows] = bfloat16(inner * alpha)
    return dx, bfloat16(dalpha), bfloat16(dgamma), bfloat16(dbeta)


def place_forward(x):
    top = x.max(axis=(1, 2), keepdims=True)
    log_sum = top + np.log(np.exp(x - top).sum(axis=(1, 2), keepdims=True))
    p = np.exp(x - log_sum)
    rows, columns = single(np.linspace(-1, 1, x.shape[1])), single(np.linspace(-1, 1, x.shape[2]))
    place = np.stack([p.sum(axis=2) @ rows, p.sum(axis=1) @ columns], axis=1)
    return bfloat16(place), (x, log_sum, place, rows, columns)


def place_backward(dy, cache):
    """From the log of the sum of exponentials and the unrounded place, one number each for each map."""
    x, log_sum, place, rows, columns = cache
    by_row = dy[:, :1] * (rows - place[:, :1])
    by_column = dy[:, 1:] * (columns - place[:, 1:])
    return (bfloat16(np.exp(x - log_sum) * (by_row[:, :, None] + by_column[:, None, :])),)


def inverse_root(v):
    """1/√v by five of Newton's steps, from a straight line between powers of four."""
    exponent = np.frexp(v)[1] // 2
    r = np.ldexp(1.6 - 0.5 * np.ldexp(v, -2 * exponent), -exponent)
    for _ in range(5):
        r = r * (1.5 - 0.5 * v * r * r)
    return r


def standardised_forward(x, w):
    wide = single(w)
    centred = wide - wide.mean(axis=1, keepdims=True)
    r = inverse_root(np.square(centred).mean(axis=1, keepdims=True) + single(1e-4))
    return half(single(x) @ (centred * r).T), (x, centred, r)


def standardised_backward(dy, cache):
    x, centred, r = cache
    hat, dy = centred * r, single(dy)
    dhat = dy.T @ single(x)
    dcentred = r * (dhat - hat * (dhat * hat).mean(axis=1, keepdims=True))
    return half(dy @ hat), half(dcentred - dcentred.mean(axis=1, keepdims=True))


POSITIVE = np.array([1.5, 0.75, 2.0, 3.0, 1.25, 0.5, 2.5, 1.75])


def binary_forward(x, t):
    wide = single(x)
    small = np.log1p(np.exp(-np.abs(wide)))
    loss = np.where(t == 1, single(POSITIVE) * (np.maximum(-wide, 0) + small), np.maximum(wide, 0) + small)
    return half(loss.mean(axis=1)), (x, t)


def binary_backward(dy, cache):
    x, t = cache
    wide = single(x)
    e = np.exp(-np.abs(wide))
    likely, rare = 1 / (1 + e), e / (1 + e)
    p, q = np.where(wide > 0, likely, rare), np.where(wide > 0, rare, likely)  # q is 1 - p without a difference
    return (half(single(dy)[:, None] * single(0.125) * np.where(t == 1, -single(POSITIVE) * q, p)),)


def interpolated_forward(x, p):
    i = np.floor(p).astype(int)
    f, wide = (single(p) - i.astype(single(p).dtype))[:, None], single(x)
    return half(wide[i] + f * (wide[i + 1] - wide[i])), (x, i, f)


def interpolated_backward(dy, cache):
    x, i, f = cache
    wide, dy = single(x), single(dy)
    dx = np.zeros_like(wide)
    np.add.at(dx, i, dy - f * dy)
    np.add.at(dx, i + 1, f * dy)
    return half(dx), half(((wide[i + 1] - wide[i]) * dy).sum(axis=1))


def draw_bumps(rng):
    return rng.uniform(-2, 2, size=40), rng.uniform(-2, 2, size=6), rng.uniform(0.5, 2, size=6)


def draw_dynamic(rng):
    return rng.normal(size=(512, 16)), rng.uniform(0.4, 1, size=1), rng.normal(size=16), rng.normal(size=16)


def draw_binary(rng):
    return 2 * rng.normal(size=(6, 8)), rng.integers(0, 2, size=(6, 8))


def draw_places(rng):
    return rng.normal(size=(8, 5)), rng.integers(0, 7, size=12) + rng.uniform(0.2, 0.8, size=12)


r = references
BUMPS, DYNAMIC = (r.bumps, r.bumps_backward), (r.dynamic_tanh, r.dynamic_tanh_backward)
PLACE, INTERPOLATED = (r.soft_argmax, r.soft_argmax_backward), (r.interpolated, r.interpolated_backward)
STANDARDISED, BINARY = (standardised_forward, standardised_backward), (binary_forward, binary_backward)

KERNELS = (
    right("bumps-polynomial-exp", "bfloat16", (bumps_forward, bumps_backward), BUMPS, draw_bumps),
    right("dynamic-tanh", "bfloat16", (dynamic_forward, dynamic_backward), DYNAMIC, draw_dynamic),
    right("spatial-soft-argmax", "bfloat16", (place_forward, place_backward), PLACE, normal((3, 7, 9))),
    right("standardised-weights", "float16", STANDARDISED, r.standardised(1e-4), normal((10, 16), (12, 16))),
    right("binary-cross-entropy", "float16", BINARY, r.binary_loss(POSITIVE), draw_binary),
    right("linear-interpolation", "float16", (interpolated_forward, interpolated_backward), INTERPOLATED, draw_places),
)
