"""Gated recurrent unit (GRU): it reads a sequence token by token, and its gates decide what the state keeps.

    a_t = x_t W + b          (B, 3C)     from the token: columns for r, z, n
    u_t = h_(t−1) U + c      (B, 3C)     from the state: columns for r, z, n
    p_r = a_r + u_r          r = σ(p_r)       how much of the past enters the proposal
    p_z = a_z + u_z          z = σ(p_z)       how much of the past stays
    p_n = a_n + r·u_n        n = tanh(p_n)    the proposal
    h_t = (1 − z)·n + z·h_(t−1)

At padding the state stays unchanged: h_t = h_(t−1).

Backward through time. h_t was used twice, as output t and as the previous state of t + 1, so its gradient is
dh = dy_t + (the gradient sent back by step t + 1). Through the last line and the gates, with σ' = σ(1 − σ),
tanh' = 1 − tanh²:

    dn = dh·(1 − z)             dz = dh·(h_(t−1) − n)
    dp_n = dn·(1 − n²)          dp_r = (dp_n·u_n)·r(1 − r)          dp_z = dz·z(1 − z)
    da_t = [dp_r, dp_z, dp_n]   du_t = [dp_r, dp_z, dp_n·r]         dh_(t−1) = dy_(t−1) + dh·z + du_t Uᵀ

At padding h_t is a copy: dh is sent back as it is, and da_t = du_t = 0. Over all steps dx = da Wᵀ, dW = Σ xᵀ da,
db = Σ da, dU = Σ_t h_(t−1)ᵀ du_t, dc = Σ du.

dh·z is why a gradient lasts or vanishes. Over k steps it is multiplied, number by number, by the k values of z: it
passes unchanged where they are 1, which the network can learn, and fades like zᵏ where they are less. The other term,
du_t Uᵀ, is multiplied by a matrix at each step, as in a recurrent network without gates.

The steps cannot be computed in parallel, since each needs the one before. That is the cost of recurrence.

Source: Cho et al. 2014, arXiv:1406.1078; with r applied after the product, as in cuDNN.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import as_rows, expect_shape, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class GruCache(NamedTuple):
    x: Array  # (B, T, C_in)
    weight: Array  # (C_in, 3C)
    recurrent: Array  # (C, 3C)
    states: Array  # (B, T+1, C)  h_0 … h_T; states and gates are kept: recomputing them is the whole forward
    gates: Array  # (B, T, 4C)  r, z, n and u_n
    visible: Array | None  # (B, T, 1)  False at padding


def gru_forward(
    x: Array,
    start: Array,
    weight: Array,
    bias: Array,
    recurrent: Array,
    recurrent_bias: Array,
    visible: Array | None = None,
) -> tuple[Array, GruCache]:
    """Read x (B, T, C_in) from the state start (B, C) on. Returns y (B, T, C), the state after each token.

    weight (C_in, 3C), recurrent (C, 3C), bias and recurrent_bias (3C,): columns for r, z, n. visible (B, T),
    boolean, is False at padding. Raises ShapeError if the shapes do not meet.
    """
    expect_gru(x, start, weight, bias, recurrent, recurrent_bias)
    xp = namespace(x)
    length, width = x.shape[1], start.shape[1]
    if visible is not None:
        expect_shape("visible", visible, "(B, T)", *x.shape[:2])
        visible = visible[..., None]
    a = xp.matmul(x, weight) + bias  # (B, T, 3C)
    h, states, gates = start, [start], []
    for t in range(length):
        u = xp.matmul(h, recurrent) + recurrent_bias  # (B, 3C)
        r = _sigmoid(a[:, t, :width] + u[:, :width])
        z = _sigmoid(a[:, t, width : 2 * width] + u[:, width : 2 * width])
        n = xp.tanh(a[:, t, 2 * width :] + r * u[:, 2 * width :])
        new = (1 - z) * n + z * h
        h = new if visible is None else xp.where(visible[:, t, :], new, h)
        states.append(h)
        gates.append(xp.concat([r, z, n, u[:, 2 * width :]], axis=-1))
    kept = xp.stack(states, axis=1)  # (B, T+1, C)
    return kept[:, 1:, :], GruCache(x, weight, recurrent, kept, xp.stack(gates, axis=1), visible)


def gru_backward(dy: Array, cache: GruCache) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Gradients (dx, dstart, dweight, dbias, drecurrent, drecurrent_bias) of gru_forward, dy (B, T, C)."""
    x, weight, recurrent, states, gates, visible = cache
    xp = namespace(dy)
    length, width = dy.shape[1:]
    back = xp.zeros_like(states[:, 0, :])  # what step t + 1 sent back
    da, du = [], []
    for t in reversed(range(length)):
        r, z, n, u_n = (gates[:, t, i * width : (i + 1) * width] for i in range(4))
        dh = dy[:, t, :] + back
        through = dh if visible is None else xp.where(visible[:, t, :], dh, xp.zeros_like(dh))
        dp_n = through * (1 - z) * (1 - n * n)
        dp_r = dp_n * u_n * r * (1 - r)
        dp_z = through * (states[:, t, :] - n) * z * (1 - z)
        da.append(xp.concat([dp_r, dp_z, dp_n], axis=-1))
        du.append(xp.concat([dp_r, dp_z, dp_n * r], axis=-1))
        back = through * z + xp.matmul(du[-1], xp.matrix_transpose(recurrent)) + (dh - through)
    da_all, du_all = (as_rows(xp.stack(parts[::-1], axis=1)) for parts in (da, du))  # (N, 3C)
    dx = xp.reshape(xp.matmul(da_all, xp.matrix_transpose(weight)), x.shape)
    dweight = xp.matmul(xp.matrix_transpose(as_rows(x)), da_all)
    drecurrent = xp.matmul(xp.matrix_transpose(as_rows(states[:, :-1, :])), du_all)
    return dx, back, dweight, xp.sum(da_all, axis=0), drecurrent, xp.sum(du_all, axis=0)


def _sigmoid(x: Array) -> Array:
    """1/(1 + exp(−x)), by tanh, which does not overflow."""
    return 0.5 + 0.5 * namespace(x).tanh(0.5 * x)


def expect_gru(x: Array, start: Array, weight: Array, bias: Array, recurrent: Array, recurrent_bias: Array) -> None:
    """Raise ShapeError unless the shapes meet."""
    if x.ndim != 3 or x.shape[1] < 1:
        raise ShapeError(f"x: expected (B, T, C_in) with T >= 1, got {tuple(x.shape)}")
    if start.ndim != 2 or start.shape[0] != x.shape[0]:
        raise ShapeError(f"start: expected (B={x.shape[0]}, C), got {tuple(start.shape)}")
    width = start.shape[1]
    expect_shape("weight", weight, "(C_in, 3C)", x.shape[2], 3 * width)
    expect_shape("recurrent", recurrent, "(C, 3C)", width, 3 * width)
    expect_shape("bias", bias, "(3C,)", 3 * width)
    expect_shape("recurrent_bias", recurrent_bias, "(3C,)", 3 * width)


GRU = Operation(gru_forward, gru_backward, parameters=4, ids="visible")
