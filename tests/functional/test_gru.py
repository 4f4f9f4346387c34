"""The gated recurrent unit: a loop over numbers, padding that keeps the state, and backward through time."""

import math

import numpy as np
import pytest

from npformer.functional import gru_backward, gru_forward

B, T, C_IN, C = 2, 4, 3, 2
VISIBLE = np.array([[True, True, True, True], [True, False, True, False]])
SHAPES = {"x": (B, T, C_IN), "start": (B, C), "weight": (C_IN, 3 * C), "bias": (3 * C,), "recurrent": (C, 3 * C),
          "recurrent_bias": (3 * C,)}  # fmt: skip


@pytest.fixture
def inputs(rng):
    return tuple(rng.normal(size=shape) for shape in SHAPES.values())


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def by_loops(inputs, visible):
    """y (B, T, C), number by number."""
    x, h, weight, bias, recurrent, recurrent_bias = (part.tolist() for part in inputs)
    y = np.zeros((B, T, C))
    for b, t in np.ndindex(B, T):
        if visible is None or visible[b, t]:
            a = [bias[j] + sum(x[b][t][i] * weight[i][j] for i in range(C_IN)) for j in range(3 * C)]
            u = [recurrent_bias[j] + sum(h[b][i] * recurrent[i][j] for i in range(C)) for j in range(3 * C)]
            new = []
            for c in range(C):
                r, z = sigmoid(a[c] + u[c]), sigmoid(a[C + c] + u[C + c])
                n = math.tanh(a[2 * C + c] + r * u[2 * C + c])
                new.append((1 - z) * n + z * h[b][c])
            h[b] = new
        y[b, t] = h[b]
    return y


@pytest.mark.parametrize("visible", [None, VISIBLE])
def test_values_number_by_number(inputs, visible):
    y, _ = gru_forward(*inputs, visible)
    np.testing.assert_allclose(y, by_loops(inputs, visible), rtol=1e-12, atol=1e-14)


def test_gates_that_are_shut_do_not_overflow(inputs):
    x, start, weight, bias, *rest = inputs
    y, cache = gru_forward(x, start, weight, bias + 1000, *rest)  # z = 1: the state stays
    np.testing.assert_allclose(y, np.repeat(start[:, None], T, axis=1), rtol=1e-12)
    assert all(np.isfinite(part).all() for part in gru_backward(np.ones_like(y), cache))
