"""Right kernels in float32 and TF32 whose algorithms are unusual: compensated, split and recomputed."""

import numpy as np

from benchmarks.precision import blind_second_references as references
from benchmarks.precision.blind_right import logistic, normal
from benchmarks.precision.kernel import right, tf32_product


def kahan_sum(terms):
    """The sum over axis 0, with what each addition loses added to the next."""
    total, lost = np.zeros_like(terms[0]), np.zeros_like(terms[0])
    for term in terms:
        step = term - lost
        larger = total + step
        lost = (larger - total) - step
        total = larger
    return total


def gaussian_forward(x, mu, log_sigma):
    z = (x - mu) / np.exp(log_sigma)
    return kahan_sum((0.5 * z * z + log_sigma).T), (z, log_sigma)


def gaussian_backward(dy, cache):
    z, log_sigma = cache
    dx = dy[:, None] * z / np.exp(log_sigma)
    return dx, -kahan_sum(dx), kahan_sum(dy[:, None] * (1 - z) * (1 + z))


def running_products(x):
    """The products of what stands before each entry of a row and of what stands behind it."""
    ones = np.ones_like(x[:, :1])
    before = np.concatenate([ones, np.cumprod(x[:, :-1], axis=1)], axis=1)
    behind = np.concatenate([np.cumprod(x[:, :0:-1], axis=1)[:, ::-1], ones], axis=1)
    return before, behind


def others_forward(x):
    before, behind = running_products(x)
    return before * behind, x


def others_backward(dy, x):
    """Both recurrences of products are gone back through, and nothing is divided by x."""
    before, behind = running_products(x)
    dbefore, dbehind, dx = dy * behind, dy * before, np.zeros_like(x)
    for i in range(x.shape[1] - 1, 0, -1):
        dx[:, i - 1] += dbefore[:, i] * before[:, i - 1]
        dbefore[:, i - 1] += dbefore[:, i] * x[:, i - 1]
    for i in range(x.shape[1] - 1):
        dx[:, i + 1] += dbehind[:, i] * behind[:, i + 1]
        dbehind[:, i + 1] += dbehind[:, i] * x[:, i + 1]
    return (dx,)


def pairwise(parts):
    """The sum of the parts, of neighbours first."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def split_product(a, b, block):
    """a @ b, the common axis cut into blocks that different units multiply."""
    cuts = [slice(start, start + block) for start in range(0, a.shape[1], block)]
    return pairwise([tf32_product(a[:, cut], b[cut]) for cut in cuts])


def gated_forward(x, w, v):
    filtered, gate = np.tanh(split_product(x, w, 24)), logistic(split_product(x, v, 24))
    return filtered * gate, (x, w, v, filtered, gate)


def gated_backward(dy, cache):
    x, w, v, filtered, gate = cache
    dfiltered = dy * gate * (1 - filtered * filtered)
    dgate = dy * filtered * gate * (1 - gate)
    joint = np.hstack([dfiltered, dgate])
    dx = split_product(joint, np.hstack([w, v]).T, 8)
    dw, dv = np.hsplit(split_product(x.T, joint, 16), 2)
    return dx, dw, dv


def distance_forward(x, mu, root):
    u = tf32_product(x - mu, root)
    return np.square(u).sum(axis=1), (x, mu, root)


def distance_backward(dy, cache):
    """The product of the forward is made again rather than kept."""
    x, mu, root = cache
    du = 2 * dy[:, None] * tf32_product(x - mu, root)
    dcentred = tf32_product(du, root.T)
    return dcentred, -dcentred.sum(axis=0), tf32_product((x - mu).T, du)


def draw_gaussian(rng):
    return rng.normal(size=(300, 6)), rng.normal(size=6), 0.4 * rng.normal(size=6)


def draw_factors(rng):
    return (rng.uniform(0.5, 1.6, size=(4, 9)) * rng.choice([-1, 1], size=(4, 9)),)


def draw_gated(rng):
    return rng.normal(size=(48, 96)), rng.normal(size=(96, 24)) / 9.8, rng.normal(size=(96, 24)) / 9.8


r = references
GAUSSIAN = r.gaussian_nll, r.gaussian_nll_backward
OTHERS = r.leave_one_out, r.leave_one_out_backward
GATED, DISTANCE = (r.gated, r.gated_backward), (r.mahalanobis, r.mahalanobis_backward)

KERNELS = (
    right("gaussian-likelihood-kahan", "float32", (gaussian_forward, gaussian_backward), GAUSSIAN, draw_gaussian),
    right("leave-one-out-product", "float32", (others_forward, others_backward), OTHERS, draw_factors),
    right("gated-unit-split-k", "tf32", (gated_forward, gated_backward), GATED, draw_gated),
    right("mahalanobis", "tf32", (distance_forward, distance_backward), DISTANCE, normal((12, 8), 8, (8, 8))),
)
