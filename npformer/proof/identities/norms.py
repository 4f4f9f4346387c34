"""Identities of normalisation, over columns or over a batch, alone and with the residual sum before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.proof.identities.identity import Claim, Claims, identity, size, sum_is_0, sum_of
from npformer.proof.identities.maps import dropout_factor
from npformer.proof.invariants.probe import Probe
from npformer.proof.invariants.result import DoesNotApply
from npformer.typing import HostArray

OVER_A_BATCH = ("batch_norm", "batch_norm_inference", "BatchNorm")
NORMS = ("layer_norm", "LayerNorm", "post_norm", "add_norm")


class Norm(NamedTuple):
    """y = γ·x̂ + β of x, and their gradients; for a norm after a residual sum, x is the sum."""

    x: HostArray
    y: HostArray
    gamma: HostArray
    beta: HostArray
    dx: HostArray
    dy: HostArray
    dgamma: HostArray
    dbeta: HostArray
    eps: float


def _norm(probe: Probe) -> Norm:
    run, at = probe.run(), probe.tensors
    x, dx = at["x"], run.gradients["x"]
    if "f" in at:
        x = x + dropout_factor(probe, x.shape) * at["f"]
    name = "output"
    if "output 0" in run.outputs:  # add_norm: the sum is handed on as well, and takes its own gradient along
        name, dx = "output 1", dx - run.upstream["output 0"]
    eps = float(probe.inputs.get("eps", getattr(probe.target, "eps", 1e-5)))
    gradients = (dx, run.upstream[name], run.gradients["gamma"], run.gradients["beta"])
    return Norm(x, run.outputs[name], at["gamma"], at["beta"], *gradients, eps)


def _statistics(n: Norm) -> tuple[HostArray, HostArray]:
    """(x − μ, σ² + ε)."""
    centred = n.x - np.mean(n.x, axis=-1, keepdims=True)
    return centred, np.mean(centred * centred, axis=-1, keepdims=True) + n.eps


@identity("layer-norm-shift", "Σ_C dx = 0 for each token", *NORMS)
def layer_norm_shift(probe: Probe) -> Claims:
    """x and x + t·1 have the same x̂, so L does not change along 1: <dx, 1> = 0. ε plays no part."""
    yield sum_is_0("Σ_C dx", _norm(probe).dx, axis=-1)


@identity("layer-norm-scale", "<x − μ, dx> = ε/(σ² + ε)·<y − β, dy> for each token", *NORMS)
def layer_norm_scale(probe: Probe) -> Claims:
    """Along the ray μ + α(x − μ), x̂(α) = α·u/√(α²σ² + ε) with u = x − μ, so at α = 1

    dx̂/dα = u·r − u·σ²·r³ = x̂·(1 − σ²r²) = x̂·ε·r²      r = 1/√(σ² + ε)

    and dL/dα = <u, dx> = Σ γ·dy·x̂·ε·r² = ε·r²·<y − β, dy>. Without ε it would be 0: dx ⟂ x̂.
    """
    n = _norm(probe)
    u, variance = _statistics(n)
    expected = n.eps / variance[..., 0] * np.sum((n.y - n.beta) * n.dy, axis=-1)
    terms = np.sum(np.abs(u * n.dx), axis=-1)
    yield Claim("<x − μ, dx>", expected, np.sum(u * n.dx, axis=-1), size(terms))


@identity("layer-norm-parameters", "dβ = Σ_tokens dy and γ·dγ = Σ_tokens (y − β)·dy", *NORMS, *OVER_A_BATCH)
def layer_norm_parameters(probe: Probe) -> Claims:
    """β_c is added to channel c of every token; scaling γ_c by α scales y_c − β_c by α (Euler)."""
    n = _norm(probe)
    yield sum_of("gradient of beta", n.dy, n.dbeta)
    yield sum_of("γ·dγ", (n.y - n.beta) * n.dy, n.gamma * n.dgamma)


@identity("layer-norm-statistics", "y is γ·(x − μ)/√(σ² + ε) + β, and β for a constant token", *NORMS)
def layer_norm_statistics(probe: Probe) -> Claims:
    """The definition, with the mean of squares over C (not C − 1) and ε inside the root.

    A constant token has x − μ = 0, hence x̂ = 0 and y = β. Its dx is finite because r = 1/√ε is.
    """
    n = _norm(probe)
    u, variance = _statistics(n)
    expected = n.gamma * u / np.sqrt(variance) + n.beta
    yield Claim("y", expected, n.y, size(expected) * max(1.0, size(n.x / np.sqrt(variance))))
    constant = {name: np.full(n.x.shape, 0.75) for name in ("x", "f") if name in probe.inputs}
    run = probe.run(constant | ({"draw": None} if "draw" in probe.inputs else {}))
    y = list(run.outputs.values())[-1]
    yield Claim("y of constant tokens", np.broadcast_to(n.beta, y.shape), y, size(n.beta))
    finite = np.isfinite(run.gradients["x"])
    yield Claim("dx of constant tokens is finite", np.ones(finite.shape), finite.astype(float), exact=True)


@identity("batch-norm-shift", "Σ_tokens dx = 0 for each column, padding's dx among them", "batch_norm", "BatchNorm")
def batch_norm_shift(probe: Probe) -> Claims:
    """x and x + 1·c, one number c for each column and the same at every token, have the same x̂, since μ moves along.

    So L does not change: <Σ_tokens dx, c> = 0. Padding does not move μ, but is moved along, so it belongs into the sum.
    """
    if not probe.is_pair and probe.options.get("training") is not True:
        raise DoesNotApply("in inference the statistics are constants, which do not move along")
    yield sum_is_0("Σ_tokens dx", probe.run().gradients["x"])
