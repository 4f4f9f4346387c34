"""Wrong gradients of activations and of choices."""

import math

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision import references_of_products as also
from benchmarks.precision.draws import normal, with_a_maximum
from benchmarks.precision.kernel import edited, wrong
from benchmarks.precision.right_activations import gelu_tanh_backward, gelu_tanh_forward, row_max_forward


def float32_gelu_tanh_forward(x):
    return 0.5 * x * (1 + np.tanh(of.ROOT * (x + of.CUBE * x * x * x))), x


def slope_of_the_exact_gelu(dy, x):
    share = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)).astype(x.dtype))
    return dy * (share + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def zeros(dy, cache):
    shape, _ = cache
    return np.zeros(shape, dtype=dy.dtype)


def float32_row_max_forward(x):
    return x.max(-1), x


def second_largest(dy, x):
    dx = np.zeros_like(x)
    dx[np.arange(len(x)), np.argsort(x, axis=-1)[:, -2]] = dy
    return dx


KERNELS = (
    wrong(
        "tanh-GELU, bfloat16, 3 missing",
        "bfloat16", (gelu_tanh_forward, edited(gelu_tanh_backward, "3 * ", "")), of.gelu_tanh, normal((4, 40)),
        "0.044715·x² for 3·0.044715·x²",
    ),
    wrong(
        "tanh-GELU, float32, slope of the exact GELU",
        "float32", (float32_gelu_tanh_forward, slope_of_the_exact_gelu), of.gelu_tanh, normal((4, 16)),
        "the slope is that of x·Φ(x), the forward is the approximation by tanh",
    ),
    wrong(
        "silu, float16, a sign",
        "float16", (of.silu[0], edited(of.silu[1], "1 + x", "1 - x")), of.silu, normal((4, 32)),
        "1 − x·(1 − s) for 1 + x·(1 − s)",
    ),
    wrong(
        "largest of each row, bfloat16, 2×400, zeros",
        "bfloat16", (row_max_forward, zeros), also.row_max, with_a_maximum(2, 400),
        "the gradient is 0",
    ),
    wrong(
        "largest of each row, float32, 2×400, the second largest",
        "float32", (float32_row_max_forward, second_largest), also.row_max, with_a_maximum(2, 400),
        "dy goes to the second largest entry",
    ),
)  # fmt: skip
