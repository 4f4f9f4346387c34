"""Right activations and choices in NumPy."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision import references_of_products as also
from benchmarks.precision.draws import away_from_0, normal, with_a_maximum
from benchmarks.precision.kernel import bfloat16, right


def gelu_tanh_forward(x):
    """float32 inside, with the constants kept in bfloat16."""
    root, cube = bfloat16(of.ROOT), bfloat16(of.CUBE)
    return bfloat16(0.5 * x * (1 + np.tanh(root * (x + cube * x * x * x)))), (x, root, cube)


def gelu_tanh_backward(dy, cache):
    x, root, cube = cache
    t = np.tanh(root * (x + cube * x * x * x))
    return bfloat16(dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (root * (1 + 3 * cube * x * x))))


def swiglu_forward(gate, up):
    """Rounded to bfloat16 after every operation."""
    s = bfloat16(1 / bfloat16(1 + bfloat16(np.exp(-gate))))
    return bfloat16(bfloat16(gate * s) * up), (gate, up, s)


def swiglu_backward(dy, cache):
    gate, up, s = cache
    slope = bfloat16(s * bfloat16(1 + bfloat16(gate * bfloat16(1 - s))))
    return bfloat16(bfloat16(dy * up) * slope), bfloat16(dy * bfloat16(gate * s))


def row_max_forward(x):
    places = x.argmax(-1)
    return x[np.arange(len(x)), places], (x.shape, places)


def row_max_backward(dy, cache):
    shape, places = cache
    dx = np.zeros(shape, dtype=dy.dtype)
    dx[np.arange(len(dx)), places] = dy
    return dx


def relu_forward(x):
    return np.maximum(x, 0), x > 0


def relu_backward(dy, positive):
    return dy * positive


KERNELS = (
    right(
        "tanh-GELU, bfloat16, constants in bfloat16",
        "bfloat16", (gelu_tanh_forward, gelu_tanh_backward), of.gelu_tanh, normal((4, 40)),
    ),
    right(
        "SwiGLU, bfloat16, rounded after every operation",
        "bfloat16", (swiglu_forward, swiglu_backward), of.swiglu, normal((4, 24), (4, 24)),
    ),
    right(
        "largest of each row, bfloat16, 2×400",
        "bfloat16", (row_max_forward, row_max_backward), also.row_max, with_a_maximum(2, 400),
    ),
    right(
        "ReLU away from 0, float32",
        "float32", (relu_forward, relu_backward), also.relu, away_from_0(5, 12),
    ),
)  # fmt: skip
