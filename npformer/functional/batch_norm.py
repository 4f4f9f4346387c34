"""Batch normalisation over tokens: each column is centred and scaled by the statistics of a whole batch.

    N = Σ c      μ = Σ c·x/N      σ² = Σ c·(x − μ)²/N      r = 1/√(σ² + ε)      sums over all tokens of the batch
    x̂ = (x − μ)·r      y = γ·x̂ + β

Names in the code: γ is gamma, β is beta, x̂ is x_hat, μ is mean, σ² is variance.

c is 1 for a token that counts and 0 for padding: padding is normalised like all other tokens, but does not
enter the statistics. Compared with LayerNorm, rows and columns are exchanged: a token's output depends on the
other tokens of the batch. That is why a padding mask is needed, and why inference, where there
may be no batch, uses running statistics from training as constants.

Backward, with g = γ·dy:

    dβ = Σ dy      dγ = Σ dy·x̂
    dx_i = r·(g_i − (c_i/N)·Σ_j g_j − (c_i/N)·x̂_i·Σ_j g_j·x̂_j)

Derivation of dx, as in ``layer_norm.py`` with tokens for columns: with u = x − μ and x̂ = u·r,

    ∂r/∂u_i = −r³·c_i·u_i/N         so du_i = r·(g_i − (c_i/N)·x̂_i·Σ_j g_j x̂_j)
    ∂u_j/∂x_i = I_ij − c_i/N        so dx_i = du_i − (c_i/N)·Σ_j du_j

and Σ_j du_j = r·Σ_j g_j because Σ_j c_j x̂_j = 0. Padding has c_i = 0: it moves no statistic, and its gradient is r·g_i.

Inference: the same map with μ and σ² given, two more inputs. With u = x − μ,

    r = 1/√(σ² + ε)      x̂ = (x − μ)·r      y = γ·x̂ + β
    dx = r·g      dμ = −Σ r·g      dσ² = Σ g·u·(−r³/2) = −½·r²·Σ g·x̂

Source: Ioffe & Szegedy 2015, arXiv:1502.03167, algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.arrays import expect_shape, namespace, real_part
from npformer.functional.layer_norm import expect_gain
from npformer.functional.operation import Operation
from npformer.typing import Array


class BatchNormCache(NamedTuple):
    x_hat: Array  # (..., C)  kept: used twice below
    r: Array  # (C,)
    gamma: Array  # (C,)
    shares: Array  # (..., 1)  c/N: 0 for padding
    mean: Array  # (C,)  μ and σ², for the running statistics
    variance: Array  # (C,)


def batch_norm_forward(
    x: Array, gamma: Array, beta: Array, counts: Array | None = None, eps: float = 1e-5
) -> tuple[Array, BatchNormCache]:
    """Normalise x (..., C) over all tokens. Returns y (..., C); μ and σ² are in the cache.

    counts (...), boolean, is True for tokens that count; None: all count. If no token counts, μ and σ² are 0.
    Raises ShapeError if gamma, beta or counts does not fit x.
    """
    expect_gain(x, gamma, beta)
    xp = namespace(x)
    tokens = tuple(range(x.ndim - 1))
    shares = token_shares(x, counts)  # (..., 1)
    mean = xp.sum(shares * x, axis=tokens)  # 1. (C,)
    centred = x - mean
    variance = xp.sum(shares * centred * centred, axis=tokens)  # 2. (C,)
    r = 1 / xp.sqrt(variance + eps)
    x_hat = centred * r  # 3. (..., C)
    return gamma * x_hat + beta, BatchNormCache(x_hat, r, gamma, shares, mean, variance)  # 4.


def batch_norm_backward(dy: Array, cache: BatchNormCache) -> tuple[Array, Array, Array]:
    """Gradients (dx (..., C), dgamma (C,), dbeta (C,)) of batch_norm_forward."""
    x_hat, r, gamma, shares, _, _ = cache
    xp = namespace(dy)
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = xp.sum(dy * x_hat, axis=tokens), xp.sum(dy, axis=tokens)  # back through 4
    g = dy * gamma
    along_one, along_x_hat = xp.sum(g, axis=tokens), xp.sum(g * x_hat, axis=tokens)  # (C,)
    return r * (g - shares * (along_one + x_hat * along_x_hat)), dgamma, dbeta  # back through 3, 2, 1


class BatchNormInferenceCache(NamedTuple):
    x_hat: Array  # (..., C)  kept: used in dγ
    r: Array  # (C,)
    gamma: Array  # (C,)


def batch_norm_inference_forward(
    x: Array, gamma: Array, beta: Array, mean: Array, variance: Array, eps: float = 1e-5
) -> tuple[Array, BatchNormInferenceCache]:
    """Normalise x (..., C) by a remembered mean and variance (C,). Returns y (..., C). Raises as batch_norm_forward."""
    expect_gain(x, gamma, beta)
    expect_shape("mean", mean, "(C,)", x.shape[-1])
    expect_shape("variance", variance, "(C,)", x.shape[-1])
    r = 1 / namespace(x).sqrt(variance + eps)
    x_hat = (x - mean) * r
    return gamma * x_hat + beta, BatchNormInferenceCache(x_hat, r, gamma)


def batch_norm_inference_backward(
    dy: Array, cache: BatchNormInferenceCache
) -> tuple[Array, Array, Array, Array, Array]:
    """Gradients (dx (..., C), dgamma, dbeta, dmean, dvariance (C,)) of batch_norm_inference_forward."""
    x_hat, r, gamma = cache
    xp = namespace(dy)
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = xp.sum(dy * x_hat, axis=tokens), xp.sum(dy, axis=tokens)
    return r * (dy * gamma), dgamma, dbeta, -r * gamma * dbeta, -0.5 * r * r * gamma * dgamma


def token_shares(x: Array, counts: Array | None) -> Array:
    """c/N (..., 1) for each token of x (..., C)."""
    xp = namespace(x)
    if counts is None:
        counted = xp.ones_like(x[..., :1])
    else:
        expect_shape("counts", counts, "the shape of x without C", *x.shape[:-1])
        counted = xp.astype(counts[..., None], x.dtype)
    num_counted = xp.sum(counted)
    return counted / xp.where(real_part(num_counted) > 0, num_counted, xp.ones_like(num_counted))


BATCH_NORM = Operation(batch_norm_forward, batch_norm_backward, parameters=2, ids="counts")
BATCH_NORM_INFERENCE = Operation(batch_norm_inference_forward, batch_norm_inference_backward, parameters=4)
