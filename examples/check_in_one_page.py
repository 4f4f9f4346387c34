"""A gradient check on one page: what ``npf.gradcheck`` does at heart, without its care.

A backward returns the gradient of one number, L = Σ dy·y. Two witnesses find the same gradient from the forward alone,
one entry of the input at a time. Both come from the Taylor series L(x + h) = L + h·L' + h²/2·L″ + h³/6·L‴ + …

    complex step           h = i·ε:   Im L(x + iε)/ε = L' − ε²/6·L‴ + …       nothing is subtracted, so ε may be 1e-30
    central differences    ±h:        (L(x+h) − L(x−h))/2h = L' + h²/6·L‴ + …     rounding costs u·|L|/h, so h is 1e-4

The complex step is exact to the last digits, but the forward has to be analytic: abs, conj and casts to float lose the
imaginary part, and max does not order complex numbers. The differences know fewer digits and take any smooth forward.
Where the two disagree, the forward is to blame, so the differences alone are asked.

``npf.gradcheck`` adds what this page lacks: steps that suit each entry, kinks and noise that are told as such, float32
and less, several outputs, parameters, and why a gradient is wrong. tests/examples/test_check_in_one_page.py holds this
page beside it.

Source: the complex step, Squire & Trapp 1998, doi:10.1137/S003614459631241X.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
EPSILON, H = 1e-30, 1e-4
EXACT, ROUGH = 1e-10, 1e-6  # what each witness may be off by, relative to the largest entry of the gradient


def check(forward: Callable[..., Any], backward: Callable[..., Any], *inputs: Array) -> list[bool]:
    """Print a row for each input (any shape, float64) and return whether its gradient is right.

    forward(*inputs) -> (y, cache); backward(dy, cache) -> the gradients in the order of inputs, one array or a tuple.
    """
    y, cache = forward(*inputs)
    dy = np.random.default_rng(0).normal(size=np.shape(y))  # a dy of ones would hide what sums to 0
    claimed = backward(dy, cache)
    verdicts = []
    for i, gradient in enumerate(claimed if isinstance(claimed, tuple) else (claimed,)):

        def loss(x: Array, i: int = i) -> Any:
            return np.sum(dy * forward(*inputs[:i], x, *inputs[i + 1 :])[0])

        rough = slopes(lambda x, step, f=loss: (f(x + H * step) - f(x - H * step)) / (2 * H), inputs[i])
        exact = slopes(lambda x, step, f=loss: np.imag(f(x + 1j * EPSILON * step)) / EPSILON, inputs[i])
        size = max(np.max(np.abs(rough)), 1e-8)
        analytic = np.max(np.abs(exact - rough)) <= ROUGH * size  # else the forward lost the imaginary part
        witness, true, limit = ("complex step", exact, EXACT) if analytic else ("differences", rough, ROUGH)
        error = np.max(np.abs(gradient - true)) / size if np.shape(gradient) == true.shape else np.inf
        verdicts.append(bool(error <= limit))
        print(f"input {i}  {'right' if verdicts[-1] else 'WRONG'}  error {error:.0e} by {witness}")
    return verdicts


def slopes(slope: Callable[[Array, Array], Any], x: Array) -> Array:
    """slope(x, step) for each entry of x, where step is 1 at that entry and 0 elsewhere; in the shape of x."""
    steps = np.eye(x.size).reshape(x.size, *x.shape)
    try:
        return np.array([slope(x, step) for step in steps]).reshape(x.shape)
    except TypeError:  # a forward that refuses complex numbers
        return np.full(x.shape, np.inf)


def softmax_forward(x: Array) -> tuple[Array, Array]:
    """x (N, C) to y (N, C)."""
    e = np.exp(x - np.max(x.real, axis=-1, keepdims=True))
    y = e / np.sum(e, axis=-1, keepdims=True)
    return y, y


def softmax_backward(dy: Array, y: Array) -> Array:
    """dx = y·(dy − Σ_C dy·y)."""
    return y * (dy - np.sum(dy * y, axis=-1, keepdims=True))


if __name__ == "__main__":
    x = np.random.default_rng(1).normal(size=(3, 4))  # random numbers: zeros and ones hide mistakes
    check(softmax_forward, softmax_backward, x)
    check(softmax_forward, lambda dy, y: y * dy, x)  # the sum is forgotten
