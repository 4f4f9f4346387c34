"""One-dimensional convolution: NumPy's own, turned round, and a causal one that sees no later token."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import conv1d_backward, conv1d_forward

Host = np.ndarray[Any, Any]
KERNELS = pytest.mark.parametrize("kernel", [1, 2, 3, 4, 9])
CAUSAL = pytest.mark.parametrize("causal", [False, True])


def made(rng: np.random.Generator, length: int, kernel: int) -> tuple[Host, Host, Host, Host]:
    """x (2, T, 3), weight (K, 3, 4), bias (4,), dy (2, T, 4)."""
    x, weight, bias, dy = (rng.normal(size=s) for s in ((2, length, 3), (kernel, 3, 4), 4, (2, length, 4)))
    return x, weight, bias, dy


def by_numpy(x: Host, weight: Host, causal: bool) -> Host:
    """Σ over channels of np.convolve with the kernel turned round, the part that stands over the tokens."""
    (batch, length, c_in), kernel = x.shape, weight.shape[0]
    first = 0 if causal else kernel - 1 - (kernel - 1) // 2
    y = np.zeros((batch, length, weight.shape[2]))
    for b, i, o in np.ndindex(batch, c_in, weight.shape[2]):
        y[b, :, o] += np.convolve(x[b, :, i], weight[::-1, i, o])[first : first + length]
    return y


@KERNELS
@CAUSAL
@pytest.mark.parametrize("length", [1, 5])
def test_values_are_those_of_numpy(length, kernel, causal, rng):
    x, weight, bias, _ = made(rng, length, kernel)
    y, _ = conv1d_forward(x, weight, bias, causal)
    np.testing.assert_allclose(y, by_numpy(x, weight, causal) + bias, rtol=1e-12, atol=1e-13)


@KERNELS
@CAUSAL
def test_gradients_are_the_sums_of_the_docstring(kernel, causal, rng):
    x, weight, bias, dy = made(rng, 5, kernel)
    dx, dweight, dbias = conv1d_backward(dy, conv1d_forward(x, weight, bias, causal)[1])
    left = kernel - 1 if causal else (kernel - 1) // 2
    expected_x, expected_weight = np.zeros_like(x), np.zeros_like(weight)
    for t, k in np.ndindex(5, kernel):
        s = t + k - left
        if 0 <= s < 5:
            expected_x[:, s] += dy[:, t] @ weight[k].T
            expected_weight[k] += x[:, s].T @ dy[:, t]
    np.testing.assert_allclose(dx, expected_x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(dweight, expected_weight, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(dbias, dy.sum(axis=(0, 1)), rtol=1e-12)


def test_a_kernel_of_one_is_a_linear_map(rng):
    x, weight, bias, _ = made(rng, 5, 1)
    np.testing.assert_allclose(conv1d_forward(x, weight, bias)[0], x @ weight[0] + bias, rtol=1e-13)


@KERNELS
def test_causal_sees_no_later_token_and_no_further_back_than_its_kernel(kernel, rng):
    x, weight, bias, _ = made(rng, 12, kernel)
    y, _ = conv1d_forward(x, weight, bias, True)
    x2 = x.copy()
    x2[:, 2] += 100
    moved = np.any(conv1d_forward(x2, weight, bias, True)[0] != y, axis=(0, 2))
    assert np.flatnonzero(moved).tolist() == list(range(2, min(12, 2 + kernel)))


@KERNELS
def test_it_looks_to_both_sides_and_with_an_even_kernel_one_further_to_the_right(kernel, rng):
    x, weight, bias, _ = made(rng, 12, kernel)
    y, _ = conv1d_forward(x, weight, bias)
    x2 = x.copy()
    x2[:, 6] += 100
    seen_by = np.flatnonzero(np.any(conv1d_forward(x2, weight, bias)[0] != y, axis=(0, 2)))
    assert seen_by.tolist() == list(range(6 - kernel // 2, 6 + (kernel - 1) // 2 + 1))


def test_a_shift_of_the_tokens_shifts_the_outputs(rng):
    x, weight, bias, _ = made(rng, 9, 3)
    y, _ = conv1d_forward(x, weight, bias)
    later, _ = conv1d_forward(x[:, 2:], weight, bias)
    np.testing.assert_allclose(later[:, 1:], y[:, 3:], rtol=1e-13)


@pytest.mark.parametrize(
    ("x", "weight", "bias", "text"),
    [
        ((2, 5, 3), (3, 4), (4,), "weight: expected (K, C_in, C_out) with K >= 1, got (3, 4)"),
        ((2, 5, 3), (0, 3, 4), (4,), "weight: expected (K, C_in, C_out) with K >= 1, got (0, 3, 4)"),
        ((2, 5, 2), (3, 3, 4), (4,), "x: expected (B, T, C_in=3), got (2, 5, 2)"),
        ((5, 3), (3, 3, 4), (4,), "x: expected (B, T, C_in=3), got (5, 3)"),
        ((2, 5, 3), (3, 3, 4), (3,), "bias: expected (C_out,) = (4,), got (3,)"),
    ],
)
def test_shapes_that_do_not_meet(x, weight, bias, text):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        conv1d_forward(np.ones(x), np.ones(weight), np.ones(bias))
