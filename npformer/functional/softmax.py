"""Softmax: scores become positive weights that sum to 1, over the visible entries of each row.

    y_j = exp(x_j − top)/Σ_k exp(x_k − top)      top = max over the visible entries

Subtracting top changes nothing (it cancels) and keeps exp from overflowing. So ∂y/∂top = 0, and the maximum needs no
gradient. A hidden entry has the score −∞, hence weight exactly 0. A visible entry some 745 below top (104 in float32)
underflows to 0 as well. A row in which nothing is visible has no weights to give: all of them are 0, by definition, and
so is its gradient.

Backward. Each output sees each input of its row, ∂y_j/∂x_i = y_j(I_ij − y_i), with I_ij = 1 where i = j, else 0. So

    dx_i = Σ_j dy_j y_j(I_ij − y_i) = y_i·(dy_i − Σ_j dy_j y_j)

The sum is the y-weighted mean of dy. It is subtracted because a shift of the whole row changes nothing: each row of dx
sums to 0. Where y_i = 0 (hidden entries, empty rows) dx_i = 0.

As a matrix the Jacobian is J = diag(y) − y yᵀ. It is symmetric, J 1 = 0, and no entry exceeds 1/4. It tends to 0 as one
weight tends to 1: a softmax that is sure of one entry passes no gradient to its scores. This is why attention divides
its scores by √D (``attention.py``), and why the loss goes back through softmax and logarithm at once
(``cross_entropy.py``).

A model computes softmax inside attention and cross-entropy. So the kernels of attention and of cross-entropy make it
fast: on a CPU the files attention* and cross_entropy* of ``backend/numpy`` and ``engine/numba``, on a GPU those of
``engine/cuda``.

Source: Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs".
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import namespace, real_part
from npformer.functional.operation import Operation
from npformer.typing import Array


class SoftmaxCache(NamedTuple):
    y: Array  # (..., S)  kept: the gradient needs the weights and nothing else


def softmax_forward(x: Array, visible: Array | None = None) -> tuple[Array, SoftmaxCache]:
    """Weights over the last axis of x (..., S). Returns y (..., S).

    visible, boolean and broadcastable to x, is True at the visible entries; None: all are visible.
    Raises ShapeError if visible does not fit x.
    """
    xp = namespace(x)
    expect_fits(visible, x)
    scores = x if visible is None else xp.where(visible, x, xp.full_like(x, -xp.inf))  # 1. a hidden entry gets 0
    top = xp.max(real_part(scores), axis=-1, keepdims=True)  # 2. (..., 1)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # a row of nothing: −∞ − −∞ is NaN
    powers = xp.exp(scores - top)  # 3. cannot overflow
    total = xp.sum(powers, axis=-1, keepdims=True)  # 4. (..., 1)
    y = powers / xp.where(total == 0, xp.ones_like(total), total)  # 5. a row of nothing stays 0
    return y, SoftmaxCache(y)


def softmax_backward(dy: Array, cache: SoftmaxCache) -> tuple[Array]:
    """Gradient (dx (..., S),) of softmax_forward."""
    (y,) = cache
    shared = namespace(dy).sum(dy * y, axis=-1, keepdims=True)  # (..., 1)
    return (y * (dy - shared),)


def expect_fits(visible: Array | None, x: Array) -> None:
    """Raise ShapeError unless visible broadcasts to x's shape: a mask with more rows would make y larger than x."""
    if visible is None:
        return
    missing = x.ndim - visible.ndim
    if missing < 0 or any(side not in (1, size) for side, size in zip(visible.shape, x.shape[missing:], strict=True)):
        raise ShapeError(f"visible: expected a shape that broadcasts to x {tuple(x.shape)}, got {tuple(visible.shape)}")


SOFTMAX = Operation(softmax_forward, softmax_backward, ids="visible")
