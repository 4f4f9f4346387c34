"""Kernels in low precision that are wrong by less than their precision can show."""

import numpy as np

from benchmarks.precision import blind_references_more as references
from benchmarks.precision.blind_right import half, logistic, normal, single
from benchmarks.precision.kernel import below, bfloat16, tf32_product

try:
    import torch

    import npformer as npf
except ImportError:
    torch = None


def turned(x, angle):
    even, odd = x[:, ::2], x[:, 1::2]
    cos, sin = single(np.cos(angle)), single(np.sin(angle))
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def rotary_forward(x):
    pairs = x.shape[1] // 2
    angle = np.outer(np.arange(len(x)), 10000.0 ** (-np.arange(pairs) / pairs))
    return bfloat16(turned(x, angle)), len(x)


def rotary_backward(dy, length):
    pairs = dy.shape[1] // 2
    angle = np.outer(np.arange(length), np.exp(-np.arange(pairs) * (9.21 / pairs)))  # the logarithm of 10000
    return (bfloat16(turned(dy, -angle)),)


def selu_forward(x):
    wide = single(x)
    y = 1.0507009873554805 * np.where(wide > 0, wide, 1.6732632423543772 * np.expm1(np.minimum(wide, 0)))
    return half(y), x


def selu_backward(dy, x):
    wide = single(x)
    slope = np.where(wide > 0, single(1.0507), single(1.0507 * 1.67326) * np.exp(np.minimum(wide, 0)))
    return (half(single(dy) * slope),)


def unit_forward(x):
    length = np.sqrt((x * x).sum(axis=-1, keepdims=True)) + single(1e-5)
    y = x / length
    return bfloat16(y), (y, length)


def unit_backward(dy, cache):
    y, length = cache
    return (bfloat16((dy - y * (y * dy).sum(axis=-1, keepdims=True)) / length),)


WIDTH = 12


def scale_norm_forward(x, g):
    wide = single(x)
    inverse = 1 / np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    return half(single(g) * single(np.sqrt(WIDTH)) * inverse * wide), (x, g, inverse)


def scale_norm_backward(dy, cache):
    x, g, inverse = cache
    unit, wide = single(x) * inverse, single(dy)
    along = (wide * unit).sum(axis=-1, keepdims=True)
    dx = single(3.4641) * single(g) * inverse * (wide - unit * along)
    return half(dx), half(single(3.4641) * along.sum(keepdims=True).reshape(1))


SMOOTH = 3e-8


def dice_forward(x, mask):
    p = logistic(x)
    shared, total = (p * mask.astype(x.dtype)).sum(axis=1), p.sum(axis=1) + mask.sum(axis=1).astype(x.dtype)
    return 1 - (2 * shared + single(SMOOTH)) / (total + single(SMOOTH)), (p, mask, shared, total)


def dice_backward(dy, cache):
    p, mask, shared, total = cache
    dp = (dy / (total * total))[:, None] * (2 * shared[:, None] - 2 * mask.astype(p.dtype) * total[:, None])
    return (dp * p * (1 - p),)


SPAN = np.arange(6)[:, None] - np.arange(6)
DECAY = np.where(SPAN >= 0, 0.9 ** np.maximum(SPAN, 0), 0)


def retention_forward(q, k, v):
    scores = tf32_product(q * single(1 / np.sqrt(8)), k.T) * single(DECAY)
    return tf32_product(scores, v), (q, k, v, scores)


def retention_backward(dy, cache):
    q, k, v, scores = cache
    ds = tf32_product(dy, v.T) * single(DECAY)
    dq = tf32_product(ds, k) * single(0.3535534)
    dk = tf32_product(ds.T, q * single(1 / np.sqrt(8)))
    return dq, dk, tf32_product(scores.T, dy)


def lora_forward(x, w, a, b):
    down = tf32_product(x, a)
    return tf32_product(x, w) + single(16 / 12) * tf32_product(down, b), (x, w, a, b, down)


def lora_backward(dy, cache):
    x, w, a, b, down = cache
    ddown = single(16 / 12) * tf32_product(dy, b.T)
    dx = tf32_product(dy, w.T) + tf32_product(ddown, a.T)
    db = single(1.3333333) * tf32_product(down.T, dy)
    return dx, tf32_product(x.T, dy), tf32_product(x.T, ddown), db


def pseudo_huber_forward(x, target):
    residual = single(x) - single(target)
    root = np.sqrt(1 + residual * residual)
    return half((residual * residual / (1 + root)).sum(axis=1)), (residual, root)


def pseudo_huber_backward(dy, cache):
    residual, root = cache
    g = single(dy)[:, None] * residual / (root + single(1e-5))
    return half(g), half(-g)


def channel_gate_forward(x, w):
    pooled = x.sum(axis=(2, 3)) / 49
    gate = logistic(pooled @ w)
    return x * gate[:, :, None, None], (x, w, pooled, gate)


def channel_gate_backward(dy, cache):
    x, w, pooled, gate = cache
    da = (dy * x).sum(axis=(2, 3)) * gate * (1 - gate)
    spread = (da @ w.T) * single(0.0204081633)
    return dy * gate[:, :, None, None] + spread[:, :, None, None], pooled.T @ da


Z_WEIGHT = 1e-5


def z_loss_body(logits, labels):
    lse = torch.logsumexp(logits, dim=1)
    return lse - (logits * labels).sum(dim=1) + Z_WEIGHT * (lse**2).detach()


def draw_dice(rng):
    return rng.normal(size=(4, 6)), rng.integers(0, 2, size=(4, 6))


def draw_z_loss(rng):
    return rng.normal(size=(5, 6)), np.eye(6, dtype=int)[rng.integers(0, 6, size=5)]


r = references
ROTARY, TURNED = (rotary_forward, rotary_backward), r.rotary(10000.0)
SELU, SELU_REFERENCE = (selu_forward, selu_backward), (r.selu, r.selu_backward)
UNIT = unit_forward, unit_backward
SCALE_NORM, SCALE_REFERENCE = (scale_norm_forward, scale_norm_backward), (r.scale_norm, r.scale_norm_backward)
DICE = dice_forward, dice_backward
RETENTION, RETAINED = (retention_forward, retention_backward), normal((6, 8), (6, 8), (6, 5))
LORA, LORA_REFERENCE = (lora_forward, lora_backward), (r.lora, r.lora_backward)
HUBER, HUBER_REFERENCE = (pseudo_huber_forward, pseudo_huber_backward), (r.pseudo_huber, r.pseudo_huber_backward)
GATE, GATE_REFERENCE = (channel_gate_forward, channel_gate_backward), (r.channel_gate, r.channel_gate_backward)
GATED, ADAPTED = normal((1, 2, 7, 7), (2, 2)), normal((5, 4), (4, 6), (4, 2), (2, 6))

KERNELS = (
    below("rotary-logarithm", "bfloat16", ROTARY, TURNED, normal((7, 8)), "log(10000) has three digits", 3e-5),
    below("selu-digits", "float16", SELU, SELU_REFERENCE, normal((5, 6)), "the constants have six digits", 3e-6),
    below("unit-length-eps", "bfloat16", UNIT, r.unit(1e-5), normal((5, 8)), "eps in both lengths, not in one", 1.5e-6),
    below("scale-norm-digits", "float16", SCALE_NORM, SCALE_REFERENCE, normal((5, WIDTH), 1), "sqrt(12) cut", 5e-7),
    below("dice-smooth", "float32", DICE, r.dice(SMOOTH), draw_dice, "the smoothing term is forgotten", 7e-9),
    below("retention-scale", "tf32", RETENTION, r.retention(DECAY), RETAINED, "q's scale has seven digits", 2.7e-8),
    below("lora-scale", "tf32", LORA, LORA_REFERENCE, ADAPTED, "16/12 has eight digits", 2.5e-8),
    below(
        "pseudo-huber-guard", "float16", HUBER, HUBER_REFERENCE, normal((4, 6), (4, 6)), "1e-5 is added to root", 5e-6
    ),
    below("channel-gate-pool", "float32", GATE, GATE_REFERENCE, GATED, "1/49 has nine digits", 5e-11),
)

#: What PyTorch differentiates, without the casts.
BODIES = {"torch-z-loss": z_loss_body}
if torch is not None:
    Z_LOSS = npf.from_torch(lambda logits, labels: z_loss_body(logits.bfloat16(), torch.as_tensor(labels)).float())
    KERNELS += (
        below("torch-z-loss", "bfloat16", Z_LOSS, r.z_loss(Z_WEIGHT), draw_z_loss, "the second loss is detached", 3e-5),
    )
