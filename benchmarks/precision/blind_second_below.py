"""More kernels in low precision that are wrong by less than their precision can show."""

import numpy as np

from benchmarks.precision import blind_second_references_more as references
from benchmarks.precision.blind_right import half, logistic, normal, single
from benchmarks.precision.kernel import below, bfloat16, tf32_product


def raised_forward(x):
    return half(np.square(np.cos(single(np.pi / 2) * single(x)))), x


def raised_backward(dy, x):
    return (half(-single(dy) * single(1.5708) * np.sin(single(np.pi) * single(x))),)


STEP = 1 / 128
NODES = np.exp(-STEP * np.arange(4096))


def tabled_exp(u):
    """exp(-u) by straight lines between the nodes of a table."""
    place = u / STEP
    i = place.astype(int)
    low, high = single(NODES)[i], single(NODES)[i + 1]
    return low + (place - i.astype(u.dtype)) * (high - low)


def bell_forward(x):
    wide = single(x)
    u = 0.5 * np.square(wide).sum(axis=1)
    return half(np.exp(-u)), (wide, u)


def bell_backward(dy, cache):
    wide, u = cache
    return (half(-wide * (single(dy) * tabled_exp(u))[:, None]),)


REACH = 20


def leaky_forward(x):
    y, state = np.empty_like(x), np.zeros_like(x[0])
    for t, row in enumerate(x):
        state = 0.5 * state + row
        y[t] = bfloat16(state)
    return y, None


def leaky_backward(dy, _):
    dx = dy.copy()
    for lag in range(1, REACH):
        dx[:-lag] += 0.5**lag * dy[lag:]
    return (bfloat16(dx),)


def error_forward(x, target, mask):
    apart = np.where(mask == 1, x - target, 0 * x)
    return bfloat16(np.asarray(np.square(apart).sum() / mask.sum().astype(x.dtype))), (apart, mask)


def error_backward(dy, cache):
    apart, mask = cache
    g = 2 * dy * apart / (mask.sum().astype(apart.dtype) + single(1e-3))
    return bfloat16(g), bfloat16(-g)


def features_forward(x, w):
    logs = x @ w - 0.5 * np.square(x).sum(axis=1, keepdims=True)
    return bfloat16(np.exp(logs)), (x, w, logs)


def features_backward(dy, cache):
    x, w, logs = cache
    dlogs = dy * np.exp2(single(1.4427) * logs)
    return bfloat16(dlogs @ w.T - x * dlogs.sum(axis=1, keepdims=True)), bfloat16(x.T @ dlogs)


def bits_forward(x):
    size = np.abs(x)
    e = np.exp(-size)
    return (np.log1p(e) + size * e / (1 + e)) / single(np.log(2)), x


def bits_backward(dy, x):
    p = logistic(x)
    return (-dy * single(1.44269504) * x * p * (1 - p),)


def harmonic_forward(a, b):
    return 2 / (1 / a + 1 / b), (a, b)


def harmonic_backward(dy, cache):
    a, b = cache
    total = a + b + single(1e-9)
    share_a, share_b = a / total, b / total
    return 2 * dy * share_b * share_b, 2 * dy * share_a * share_a


def bilinear_forward(x, w, z):
    u = tf32_product(x, w)
    return (u * z).sum(axis=1) / single(np.sqrt(3)), (x, w, z, u)


def bilinear_backward(dy, cache):
    x, w, z, u = cache
    g = dy[:, None] * single(0.57735027)
    return tf32_product(g * z, w.T), tf32_product(x.T, g * z), g * u


PENALTY = 2e-9


def ridge_forward(x, w):
    u = tf32_product(x, w)
    return np.asarray(0.5 * np.square(u).sum() + 0.5 * single(PENALTY) * np.square(w).sum()), (x, w, u)


def ridge_backward(dy, cache):
    x, w, u = cache
    return tf32_product(dy * u, w.T), tf32_product(x.T, dy * u)


def quick_inverse_root(v):
    """1/√v from half the bits of v, and two of Newton's steps."""
    bits = np.ascontiguousarray(v, dtype=np.float32).view(np.int32)
    r = (np.int32(0x5F3759DF) - (bits >> 1)).view(np.float32).astype(v.dtype)
    for _ in range(2):
        r = r * (1.5 - 0.5 * v * r * r)
    return r


def root_unit_forward(x):
    wide = single(x)
    return half(wide / np.sqrt(1 + wide * wide)), x


def root_unit_backward(dy, x):
    wide = single(x)
    root = quick_inverse_root(1 + wide * wide)
    return (half(single(dy) * root * root * root),)


def draw_within(rng):
    return (rng.uniform(-0.9, 0.9, size=(5, 6)),)


def draw_masked(rng):
    mask = np.zeros(48, dtype=int)
    mask[rng.permutation(48)[:20]] = 1
    return rng.normal(size=(6, 8)), rng.normal(size=(6, 8)), mask.reshape(6, 8)


def draw_features(rng):
    return 0.7 * rng.normal(size=(6, 4)), rng.normal(size=(4, 8))


def draw_positive(rng):
    return tuple(rng.uniform(0.5, 2, size=(2, 5, 6)))


r = references
RAISED, RAISED_REFERENCE = (raised_forward, raised_backward), (r.raised_cosine, r.raised_cosine_backward)
BELL, BELL_REFERENCE = (bell_forward, bell_backward), (r.bell, r.bell_backward)
LEAKY, LEAKY_REFERENCE = (leaky_forward, leaky_backward), (r.leaky, r.leaky_backward)
ERROR, ERROR_REFERENCE = (error_forward, error_backward), (r.masked_error, r.masked_error_backward)
FEATURES, FEATURES_REFERENCE = (features_forward, features_backward), (r.features, r.features_backward)
BITS, BITS_REFERENCE = (bits_forward, bits_backward), (r.bits, r.bits_backward)
HARMONIC, HARMONIC_REFERENCE = (harmonic_forward, harmonic_backward), (r.harmonic, r.harmonic_backward)
BILINEAR, BILINEAR_REFERENCE = (bilinear_forward, bilinear_backward), (r.bilinear, r.bilinear_backward)
RIDGE, ROOT_UNIT = (ridge_forward, ridge_backward), (root_unit_forward, root_unit_backward)
ROOT_REFERENCE, DRAW_BILINEAR = (r.root_unit, r.root_unit_backward), normal((5, 6), (6, 7), (5, 7))

KERNELS = (
    below("raised-cosine-digits", "float16", RAISED, RAISED_REFERENCE, draw_within, "pi / 2 has five digits", 2.3e-6),
    below("bell-table", "float16", BELL, BELL_REFERENCE, normal((10, 3)), "exp is straight between nodes", 5e-6),
    below("leaky-truncated", "bfloat16", LEAKY, LEAKY_REFERENCE, normal((40, 3)), "20 steps back are the last", 6e-7),
    below("masked-error-guard", "bfloat16", ERROR, ERROR_REFERENCE, draw_masked, "1e-3 is added to the count", 5e-5),
    below(
        "exponential-features", "bfloat16", FEATURES, FEATURES_REFERENCE, draw_features, "log2(e) has five digits", 5e-6
    ),
    below("bits-digits", "float32", BITS, BITS_REFERENCE, normal((5, 6)), "1 / log(2) has nine digits", 6e-10),
    below("harmonic-guard", "float32", HARMONIC, HARMONIC_REFERENCE, draw_positive, "1e-9 is added to a + b", 8e-10),
    below("bilinear-scale", "tf32", BILINEAR, BILINEAR_REFERENCE, DRAW_BILINEAR, "1/√3 has eight digits", 1.4e-9),
    below("ridge-penalty", "tf32", RIDGE, r.ridge(PENALTY), normal((10, 6), (6, 4)), "the penalty is forgotten", 2e-10),
    below(
        "root-unit-newton",
        "float16",
        ROOT_UNIT,
        ROOT_REFERENCE,
        normal((8, 5)),
        "two Newton steps are one too few",
        9e-6,
    ),
)
