"""Wrong norms, losses and activations in low precision: one gradient is off by more than its precision hides."""

import numpy as np

from benchmarks.precision import blind_references as references
from benchmarks.precision import blind_references_more as more
from benchmarks.precision.blind_right import half, logistic, normal, single
from benchmarks.precision.kernel import bfloat16, wrong

try:
    import torch

    import npformer as npf
except ImportError:
    torch = None

EPS = 1e-5


def weight_norm_forward(x, v, g):
    norm = np.sqrt(np.square(v).sum(axis=0))
    scale = g / (norm + single(EPS))
    return x @ (v * scale), (x, v, g, norm, scale)


def weight_norm_backward(dy, cache):
    x, v, _, norm, scale = cache
    dw = x.T @ dy
    unit = v / (norm + single(EPS))
    along = (dw * unit).sum(axis=0)
    return dy @ (v * scale).T, scale * (dw - unit * along), along


def groups_forward(x, gamma, beta):
    grouped = x.reshape(len(x), 2, -1, x.shape[2])
    centred = grouped - grouped.mean(axis=(2, 3), keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=(2, 3), keepdims=True) + single(EPS))
    hat = centred * rstd
    return bfloat16(hat.reshape(x.shape) * gamma[:, None] + beta[:, None]), (hat, rstd, gamma)


def groups_backward(dy, cache):
    hat, rstd, gamma = cache
    g = (dy * gamma[:, None]).reshape(hat.shape)
    mean = g.mean(axis=(2, 3), keepdims=True)
    inner = (g * hat).mean(axis=3, keepdims=True)
    dx = bfloat16(rstd * (g - mean - hat * inner)).reshape(dy.shape)
    return dx, bfloat16((dy * hat.reshape(dy.shape)).sum(axis=(0, 2))), bfloat16(dy.sum(axis=(0, 2)))


WEIGHTS = np.array([0.5, 0.875, 0.625, 0.75, 0.5625])


def weighted_forward(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    w = single(WEIGHTS)[labels]
    losses = -w * log_p[np.arange(len(labels)), labels]
    return bfloat16(losses.sum() / w.sum()), (log_p, w, labels)


def weighted_backward(dy, cache):
    log_p, w, labels = cache
    dlogits = np.exp(log_p)
    dlogits[np.arange(len(labels)), labels] -= 1
    return (bfloat16(dlogits * w[:, None] * (dy / len(labels))),)


def soft_gate_forward(x, s):
    gain = np.log1p(np.exp(single(s)))
    return half(single(x) * gain), (x, s, gain)


def soft_gate_backward(dy, cache):
    x, s, gain = cache
    dgain = np.zeros_like(gain)
    for start in range(0, len(x) - 3, 4):
        rows = slice(start, start + 4)
        dgain += (single(dy[rows]) * single(x[rows])).sum(axis=0)
    return half(single(dy) * gain), half(dgain * logistic(single(s)))


def instance_forward(x, gamma, beta):
    wide = single(x)
    centred = wide - wide.mean(axis=2, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=2, keepdims=True) + single(EPS))
    return half(centred * rstd * single(gamma)[:, None] + single(beta)[:, None]), (x, gamma)


def instance_backward(dy, cache):
    x, gamma = cache
    mean = single(x).mean(axis=2, keepdims=True)
    variance = single(x * x).mean(axis=2, keepdims=True) - mean * mean  # the squares are float16
    rstd = 1 / np.sqrt(variance + single(EPS))
    hat, dy = (single(x) - mean) * rstd, single(dy)
    g = dy * single(gamma)[:, None]
    dx = rstd * (g - g.mean(axis=2, keepdims=True) - hat * (g * hat).mean(axis=2, keepdims=True))
    return half(dx), half((dy * hat).sum(axis=(0, 2))), half(dy.sum(axis=(0, 2)))


if torch is not None:

    class Snake(torch.autograd.Function):
        """x + sin²(alpha x) / alpha, whose backward takes 1 / alpha for a constant."""

        @staticmethod
        def forward(ctx, x, alpha):
            ctx.save_for_backward(x, alpha)
            return x + torch.sin(alpha * x) ** 2 / alpha

        @staticmethod
        def backward(ctx, dy):
            x, alpha = ctx.saved_tensors
            double = torch.sin(2 * alpha * x)
            return dy * (1 + double), (dy * x * double / alpha).sum(0)


def snake_body(x, alpha):
    return Snake.apply(x, alpha)


def draw_weighted(rng):
    return rng.normal(size=(5, 5)), rng.integers(0, 5, size=5)


def draw_instance(rng):
    return 3 + 0.125 * rng.normal(size=(2, 3, 8)), 1 + 0.5 * rng.normal(size=3), rng.normal(size=3)


def draw_snake(rng):
    return rng.normal(size=(5, 4)), rng.uniform(0.5, 2, size=4)


r = references
WEIGHT_NORM, GROUPS = (weight_norm_forward, weight_norm_backward), (groups_forward, groups_backward)
WEIGHTED, INSTANCE = (weighted_forward, weighted_backward), (instance_forward, instance_backward)
SOFT_GATE, SOFT_REFERENCE = (soft_gate_forward, soft_gate_backward), (more.soft_gate, more.soft_gate_backward)
SNAKE_REFERENCE = more.snake, more.snake_backward
DRAW_GROUPS, DRAW_WEIGHT_NORM, DRAW_GATE = normal((2, 4, 5), 4, 4), normal((5, 6), (6, 4), 4), normal((9, 4), 4)
DENOMINATOR = "divides by the number of labels, not by the sum of their weights"
AXIS = "the mean of g times x_hat runs over positions, not over the channels of the group"
CAST = "squares are rounded to float16 before the square of the mean is subtracted"

KERNELS = (
    wrong(
        "weight-norm", "float32", WEIGHT_NORM, r.weight_norm(EPS), DRAW_WEIGHT_NORM, "eps in both lengths, not in one"
    ),
    wrong("group-norm-axis", "bfloat16", GROUPS, r.group_norm(2), DRAW_GROUPS, AXIS),
    wrong("weighted-log-softmax", "bfloat16", WEIGHTED, more.weighted_nll(WEIGHTS), draw_weighted, DENOMINATOR),
    wrong("softplus-gate", "float16", SOFT_GATE, SOFT_REFERENCE, DRAW_GATE, "the row beyond the blocks is lost"),
    wrong("instance-norm-one-pass", "float16", INSTANCE, r.group_norm(3), draw_instance, CAST),
)

#: What PyTorch differentiates, without the casts.
BODIES = {"torch-snake": snake_body}
if torch is not None:
    SNAKE, CROSS = npf.from_torch(snake_body), "alpha lacks the term of the division by alpha"
    KERNELS += (wrong("torch-snake", "float32", SNAKE, SNAKE_REFERENCE, draw_snake, CROSS),)
