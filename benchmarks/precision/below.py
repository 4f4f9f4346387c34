"""Gradients that are wrong by less than their precision shows."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision import references_of_products as also
from benchmarks.precision.draws import causal, classified, normal, normed, weighted
from benchmarks.precision.kernel import below, bfloat16, edited, float16, float32
from benchmarks.precision.right_activations import gelu_tanh_backward
from benchmarks.precision.right_attention import masked_backward, masked_forward
from benchmarks.precision.right_norms import LAYER_NORM, RMS_NORM, layer_norm_backward
from benchmarks.precision.right_norms import half_forward as half_layer_norm_forward
from benchmarks.precision.right_products import (
    linear_backward,
    linear_forward,
    tf32_linear_backward,
    tf32_linear_forward,
)
from benchmarks.precision.right_softmax import half_forward, loss_backward, loss_forward
from benchmarks.precision.wrong_norms import rms_forward

LENGTH = 12


def mean_forward(x):
    return bfloat16(x.sum(-1) / LENGTH), x.shape


def share_in_bfloat16(dy, shape):
    """1/12 is rounded to bfloat16."""
    share = np.float32(0.08349609375)
    return bfloat16(np.broadcast_to(dy[:, None] * share, shape))


def rms_with_another_eps(dy, cache):
    x, _, gamma = cache
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    h, g = x * r, dy * gamma
    return bfloat16(r * (g - h * (g * h).mean(-1, keepdims=True))), bfloat16((dy * h).sum(0))


def cube_cut_short(dy, cache):
    x, root, _ = cache
    return gelu_tanh_backward(dy, (x, root, 0.0447))


def gelu_tanh_forward(x):
    y = 0.5 * x * (1 + np.tanh(of.ROOT * (x + of.CUBE * x * x * x)))
    return bfloat16(y), (x, of.ROOT, of.CUBE)


def scale_cut_short(dy, cache):
    q, k, v, p, _ = cache
    return masked_backward(dy, (q, k, v, p, 0.354))


def smoothed_loss_backward(dy, cache):
    """Label smoothing of 1e-9, which the forward has not."""
    x, classes, _ = cache
    dx = loss_backward(dy, cache) - dy / len(x) * (1e-9 / x.shape[-1])
    dx[np.arange(len(x)), classes] += dy / len(x) * 1e-9
    return dx


def softmax_times(dy, p):
    p, dy = float32(p), float32(dy)
    return float16(p * (dy - (p * dy).sum(-1, keepdims=True)) * 1.0002)


def layer_norm_with_another_eps(dy, cache):
    x, mean, _, gamma = cache
    r = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)
    return tuple(float16(d) for d in layer_norm_backward(float32(dy), (x, mean, r, gamma)))


TINY = "(x.T @ dy * np.float64(1 + 3e-8)).astype(dy.dtype)"

KERNELS = (
    below(
        "linear layer, bfloat16, dW × 1.002",
        "bfloat16", (linear_forward, edited(linear_backward, "@ dy)", "@ dy * 1.002)")),
        also.linear, weighted(64, 32, 24),
        "dW is 0.2 % too large", 2e-3,
    ),
    below(
        "mean, bfloat16, 1/N in bfloat16",
        "bfloat16", (mean_forward, share_in_bfloat16), also.mean, normal((6, LENGTH)),
        "1/12 is rounded to bfloat16", 1.95e-3,
    ),
    below(
        "RMSNorm, bfloat16, another eps",
        "bfloat16", (rms_forward, rms_with_another_eps), RMS_NORM, normed(8, 64, bias=False),
        "eps is 1e-5 in the backward, 1e-6 in the forward; the mean square is 1", 4.5e-6,
    ),
    below(
        "tanh-GELU, bfloat16, 0.0447",
        "bfloat16", (gelu_tanh_forward, cube_cut_short), of.gelu_tanh, normal((4, 40)),
        "the backward's constant is 0.0447, the forward's 0.044715", 1e-5,
    ),
    below(
        "causal attention, bfloat16, 0.354 for 1/√8",
        "bfloat16", (masked_forward, scale_cut_short), also.attention, causal(10, 8),
        "the scale of dq and dk is 0.354", 1.26e-3,
    ),
    below(
        "linear layer, float32, dW × (1 + 3e-8)",
        "float32", (also.linear[0], edited(also.linear[1], "x.T @ dy", TINY)),
        also.linear, weighted(24, 12, 9),
        "dW is 3e-8 too large", 3e-8,
    ),
    below(
        "cross-entropy, float32, label smoothing of 1e-9",
        "float32", (loss_forward, smoothed_loss_backward), of.cross_entropy, classified(6, 8),
        "the backward smooths the labels, the forward does not", 1e-9,
    ),
    below(
        "linear layer, TF32, dW × (1 + 1e-6)",
        "tf32", (tf32_linear_forward, edited(tf32_linear_backward, "x.T, dy)", "x.T, dy) * 1.000001")),
        also.linear, weighted(48, 32, 16),
        "dW is 1e-6 too large", 1e-6,
    ),
    below(
        "softmax, float16, dx × 1.0002",
        "float16", (half_forward, softmax_times), of.softmax, normal((4, 24)),
        "dx is 0.02 % too large", 2e-4,
    ),
    below(
        "LayerNorm, float16, another eps",
        "float16", (half_layer_norm_forward, layer_norm_with_another_eps), LAYER_NORM, normed(6, 48),
        "eps is 1e-6 in the backward, 1e-5 in the forward; the variance is 1", 4.5e-6,
    ),
)  # fmt: skip
