"""The gated recurrent unit: a loop over numbers, padding that keeps the state, and backward through time."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import gru_backward, gru_forward

Host = np.ndarray[Any, Any]
B, T, C_IN, C = 2, 4, 3, 2
VISIBLE = np.array([[True, True, True, True], [True, False, True, False]])
SHAPES = {"x": (B, T, C_IN), "start": (B, C), "weight": (C_IN, 3 * C), "bias": (3 * C,), "recurrent": (C, 3 * C),
          "recurrent_bias": (3 * C,)}  # fmt: skip


@pytest.fixture
def given(rng):
    return tuple(rng.normal(size=shape) for shape in SHAPES.values())


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_loops(given: tuple[Host, ...], visible: Host | None) -> Host:
    """y (B, T, C), number by number."""
    x, h, weight, bias, recurrent, recurrent_bias = (part.tolist() for part in given)
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
def test_values_number_by_number(given, visible):
    y, _ = gru_forward(*given, visible)
    np.testing.assert_allclose(y, by_loops(given, visible), rtol=1e-12, atol=1e-14)


def test_padding_hands_on_state_and_gradient(given, rng):
    x, start, *parameters = given
    y, cache = gru_forward(x, start, *parameters, VISIBLE)
    assert np.array_equal(y[1, 0], y[1, 1])
    spoilt = np.where(VISIBLE[..., None], x, 1e3)
    again, again_cache = gru_forward(spoilt, start, *parameters, VISIBLE)
    assert np.array_equal(again, y)
    dy = rng.normal(size=y.shape)
    found, other = gru_backward(dy, cache), gru_backward(dy, again_cache)
    assert all(np.array_equal(a, b) for a, b in zip(found, other, strict=True))
    assert not found[0][~VISIBLE].any()
    nothing, nothing_cache = gru_forward(x, start, *parameters, np.zeros_like(VISIBLE))
    assert np.array_equal(nothing, np.repeat(start[:, None], T, axis=1))
    np.testing.assert_allclose(gru_backward(dy, nothing_cache)[1], dy.sum(axis=1), rtol=1e-13)


def test_it_goes_on_where_it_stopped(given):
    x, start, *parameters = given
    whole, _ = gru_forward(x, start, *parameters)
    first, _ = gru_forward(x[:, :2], start, *parameters)
    rest, _ = gru_forward(x[:, 2:], first[:, -1], *parameters)
    np.testing.assert_allclose(np.concatenate([first, rest], axis=1), whole, rtol=1e-14)


def test_the_gradient_of_the_first_state_shrinks_with_the_way_back(rng):
    """dh_T/dh_0 is a product of T Jacobians: what attention, whose way is one step from anywhere, does not have."""
    _, start, *parameters = (0.5 * rng.normal(size=shape) for shape in SHAPES.values())
    sizes = []
    for length in (1, 10, 40):
        y, cache = gru_forward(rng.normal(size=(B, length, C_IN)), start, *parameters)
        dy = np.zeros_like(y)
        dy[:, -1] = 1
        sizes.append(np.abs(gru_backward(dy, cache)[1]).max())
    assert sizes[0] > 10 * sizes[1] > 100 * sizes[2] > 0


def test_gates_that_are_shut_do_not_overflow(given):
    x, start, weight, bias, *rest = given
    y, cache = gru_forward(x, start, weight, bias + 1000, *rest)  # z = 1: the state stays
    np.testing.assert_allclose(y, np.repeat(start[:, None], T, axis=1), rtol=1e-12)
    assert all(np.isfinite(part).all() for part in gru_backward(np.ones_like(y), cache))


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("x", (2, 3), "x: expected (B, T, C_in) with T >= 1, got (2, 3)"),
        ("x", (2, 0, 3), "x: expected (B, T, C_in) with T >= 1, got (2, 0, 3)"),
        ("start", (3, 2), "start: expected (B=2, C), got (3, 2)"),
        ("weight", (3, 5), "weight: expected (C_in, 3C) = (3, 6), got (3, 5)"),
        ("recurrent", (2, 5), "recurrent: expected (C, 3C) = (2, 6), got (2, 5)"),
        ("bias", (5,), "bias: expected (3C,) = (6,), got (5,)"),
        ("recurrent_bias", (5,), "recurrent_bias: expected (3C,) = (6,), got (5,)"),
        ("visible", (2, 3), "visible: expected (B, T) = (2, 4), got (2, 3)"),
    ],
)
def test_shapes_that_do_not_meet(name, shape, text, given):
    parts: dict[str, Host] = dict(zip(SHAPES, given, strict=True)) | {name: np.ones(shape)}
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        gru_forward(**parts)
