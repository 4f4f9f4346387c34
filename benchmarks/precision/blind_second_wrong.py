"""Wrong kernels whose mathematics is wrong in one subtle place. The forward is right."""

import numpy as np

from benchmarks.precision import blind_second_references_more as references
from benchmarks.precision.blind_right import half, normal, single
from benchmarks.precision.kernel import bfloat16, tf32_product, wrong


def log_softmax(scores, axis):
    shifted = scores - scores.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def contrastive_forward(x, z, t):
    cosines = tf32_product(x, z.T)
    scores = np.exp(t) * cosines
    by_row, by_column = log_softmax(scores, 1), log_softmax(scores, 0)
    return np.asarray(-0.5 * (np.diag(by_row) + np.diag(by_column)).mean()), (x, z, t, cosines, by_row, by_column)


def contrastive_backward(dy, cache):
    x, z, t, cosines, by_row, by_column = cache
    dscores = 0.5 * (np.exp(by_row) + np.exp(by_column))
    dscores[np.diag_indices(len(x))] -= 1
    dscores *= dy / len(x)
    scaled = np.exp(t) * dscores
    return tf32_product(scaled, z), tf32_product(scaled.T, x), (dscores * cosines).sum().reshape(1)


def reflected_forward(x, w):
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), mode="reflect")
    patches = np.concatenate([padded[:, k : k + x.shape[1]] for k in range(3)], axis=2)
    return tf32_product(patches, w.reshape(-1, w.shape[2])), (patches, w)


def reflected_backward(dy, cache):
    patches, w = cache
    batch, steps, channels = len(dy), dy.shape[1], w.shape[1]
    dpatches = tf32_product(dy, w.reshape(-1, w.shape[2]).T)
    dpadded = np.zeros((batch, steps + 2, channels), dtype=dy.dtype)
    for k in range(3):
        dpadded[:, k : k + steps] += dpatches[:, :, k * channels : (k + 1) * channels]
    dw = tf32_product(patches.reshape(-1, patches.shape[2]).T, dy.reshape(-1, dy.shape[2]))
    return dpadded[:, 1:-1], dw.reshape(w.shape)


CAP = 8.0


def capped_forward(x, labels):
    log_p = log_softmax(CAP * np.tanh(x / CAP), 1)
    return bfloat16(-log_p[np.arange(len(x)), labels]), (log_p, labels)


def capped_backward(dy, cache):
    log_p, labels = cache
    dx = np.exp(log_p)
    dx[np.arange(len(dx)), labels] -= 1
    return (bfloat16(dx * dy[:, None]),)


def delta_forward(s, k, v, beta):
    s, k, v, beta = single(s), single(k), single(v), single(beta)
    error = v - s @ k
    return half(s + np.outer(beta * error, k)), (k, beta, error)


def delta_backward(dy, cache):
    k, beta, error = cache
    dy = single(dy)
    read = dy @ k
    derror = beta * read
    return half(dy - np.outer(derror, k)), half(beta * (error @ dy)), half(derror), half((read @ error).reshape(1))


def cross(a, b):
    return np.roll(a, -1, axis=1) * np.roll(b, -2, axis=1) - np.roll(a, -2, axis=1) * np.roll(b, -1, axis=1)


def turned_forward(q, v):
    norm = np.sqrt(np.square(q).sum(axis=1, keepdims=True))
    unit = q / norm
    around = 2 * cross(unit[:, 1:], v)
    return v + unit[:, :1] * around + cross(unit[:, 1:], around), (q, v, norm, around)


def turned_backward(dy, cache):
    q, v, norm, around = cache
    unit = q / norm
    daround = unit[:, :1] * dy + cross(dy, unit[:, 1:])
    daxis = cross(around, dy) + 2 * cross(v, daround)
    dunit = np.concatenate([(dy * around).sum(axis=1, keepdims=True), daxis], axis=1)
    dq = (dunit - q * (q * dunit).sum(axis=1, keepdims=True)) / norm
    return dq, dy + 2 * cross(daround, unit[:, 1:])


def draw_contrastive(rng):
    x, z = rng.normal(size=(2, 6, 8))
    x, z = (a / np.sqrt(np.square(a).sum(axis=1, keepdims=True)) for a in (x, z))
    return x, z, rng.uniform(1.5, 2.5, size=1)


def draw_capped(rng):
    return 2 * rng.normal(size=(6, 7)), rng.integers(0, 7, size=6)


def draw_delta(rng):
    return rng.normal(size=(5, 4)), 0.7 * rng.normal(size=4), rng.normal(size=5), rng.uniform(0.3, 0.9, size=1)


def draw_turned(rng):
    q = rng.normal(size=(6, 4))
    length = 1 + 0.02 * rng.uniform(0.5, 1, size=(6, 1)) * rng.choice([-1, 1], size=(6, 1))
    return length * q / np.sqrt(np.square(q).sum(axis=1, keepdims=True)), rng.normal(size=(6, 3))


r = references
CONTRASTIVE, CONTRASTED = (contrastive_forward, contrastive_backward), (r.contrastive, r.contrastive_backward)
REFLECTED, MIRRORED = (reflected_forward, reflected_backward), (r.reflected, r.reflected_backward)
DELTA, DELTA_REFERENCE = (delta_forward, delta_backward), (r.delta_rule, r.delta_rule_backward)
TURNED, TURNED_REFERENCE = (turned_forward, turned_backward), (r.turned, r.turned_backward)
CAPPED, READ = (capped_forward, capped_backward), "the key's gradient lacks the path through what is read"
LOGARITHM = "the gradient of the log of the scale is that of the scale"

KERNELS = (
    wrong("contrastive-scale", "tf32", CONTRASTIVE, CONTRASTED, draw_contrastive, LOGARITHM),
    wrong(
        "reflected-ends", "tf32", REFLECTED, MIRRORED, normal((2, 9, 3), (3, 3, 4)), "the mirrored ends give nothing"
    ),
    wrong("soft-cap", "bfloat16", CAPPED, r.capped_loss(CAP), draw_capped, "the slope of the cap is forgotten"),
    wrong("delta-rule", "float16", DELTA, DELTA_REFERENCE, draw_delta, READ),
    wrong("quaternion", "float32", TURNED, TURNED_REFERENCE, draw_turned, "the projection takes q for its unit"),
)
