"""Layer normalisation: each token is centred and scaled by its own statistics.

    μ = mean_C x      σ² = mean_C (x − μ)²      r = 1/√(σ² + ε)
    x̂ = (x − μ)·r     y = γ·x̂ + β

Names in the code: γ is gamma, β is beta, x̂ is x_hat.

Backward, with g = γ·dy (the gradient that reaches x̂):

    dβ = Σ_tokens dy        dγ = Σ_tokens dy·x̂
    dx = r·(g − mean_C g − x̂·mean_C(g·x̂))

Derivation of dx. Let u = x − μ, so x̂ = u·r and r depends on u through σ² = mean_C u²:

    dr       = Σ_j g_j u_j                            r is used by every x̂_j = u_j·r
    ∂r/∂u_i  = −r³·u_i/C                              from r = (σ² + ε)^(−1/2) and ∂σ²/∂u_i = 2u_i/C
    du_i     = r·g_i + dr·∂r/∂u_i                     u_i is used by x̂_i and by r
             = r·(g_i − x̂_i·mean_C(g·x̂))              since u·r = x̂
    dx_i     = du_i − mean_C du                       since ∂u_j/∂x_i = I_ij − 1/C
             = r·(g_i − mean_C g − x̂_i·mean_C(g·x̂))   since mean_C x̂ = 0

The two means are subtracted because μ and r depend on x: the part of g along 1 (a shift
changes nothing) and the part along x̂ (a scale changes nothing, as far as ε is small).

As a matrix, for one token: dx = r·(I − 1 1ᵀ/C − x̂ x̂ᵀ/C) g. Without ε, x̂ᵀx̂ = C, and the bracket takes
off what lies along 1 and along x̂. Of C directions C − 2 are left. At C = 2 none is, and dx = 0: x̂ is (1, −1) or
(−1, 1), whatever x is. With ε, x̂ᵀdx = ε·r³·x̂ᵀg, small but not 0.

Other derivations go from σ² back to μ as well. That term is 0: ∂σ²/∂μ = −2·mean_C(x − μ) = 0, as μ minimises
mean_C (x − μ)². Here it is the last step: what r sends to u has mean 0.

Source: Ba, Kiros & Hinton 2016, arXiv:1607.06450, eq. 3.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.arrays import expect_shape, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class LayerNormCache(NamedTuple):
    x_hat: Array  # (..., C)  kept: used twice below; as cheap to keep as x itself
    r: Array  # (..., 1)  kept: one number per token
    gamma: Array  # (C,)


def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, LayerNormCache]:
    """Normalise x (..., C) over C. Returns y (..., C). Raises ShapeError if gamma or beta is not (C,)."""
    expect_gain(x, gamma, beta)
    xp = namespace(x)
    centred = x - xp.mean(x, axis=-1, keepdims=True)  # 1. (..., C)
    r = 1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)  # 2. (..., 1)
    x_hat = centred * r  # 3. (..., C)
    return gamma * x_hat + beta, LayerNormCache(x_hat, r, gamma)  # 4.


def layer_norm_backward(dy: Array, cache: LayerNormCache) -> tuple[Array, Array, Array]:
    """Gradients (dx (..., C), dgamma (C,), dbeta (C,)) of layer_norm_forward."""
    x_hat, r, gamma = cache
    xp = namespace(dy)
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = xp.sum(dy * x_hat, axis=tokens), xp.sum(dy, axis=tokens)  # back through 4
    g = dy * gamma
    along_one = xp.mean(g, axis=-1, keepdims=True)  # back through 1
    along_x_hat = xp.mean(g * x_hat, axis=-1, keepdims=True)  # back through 2
    return r * (g - along_one - x_hat * along_x_hat), dgamma, dbeta  # back through 3


def expect_gain(x: Array, gamma: Array, beta: Array) -> None:
    """Raise ShapeError unless gamma and beta are (C,)."""
    expect_shape("gamma", gamma, "(C,)", x.shape[-1])
    expect_shape("beta", beta, "(C,)", x.shape[-1])


LAYER_NORM = Operation(layer_norm_forward, layer_norm_backward, parameters=2)
