"""Two identities that need no symmetry: the adjoint of an input that enters linearly, and the integral along a path.

A right gradient keeps every identity. A wrong one keeps that of a symmetry if its error has the same symmetry: 2·dx
keeps every row of softmax's dx at sum 0. These two compare dx with the forward along random directions, so a wrong
gradient keeps them only if its error is orthogonal to what was drawn, which has probability 0, or is lost in the
tolerance. The adjoint looks only at inputs on which the output depends linearly: of attention at V alone. The path
integral looks at all inputs and parameters at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npformer.check.claims.identities.identity import Claim, identity, kinds_of
from npformer.check.claims.invariants.probe import Probe
from npformer.check.claims.invariants.result import DoesNotApply
from npformer.functional import OPERATIONS
from npformer.typing import HostArrays

#: Inputs and parameters on which the output depends linearly, up to a constant, all others held.
LINEAR_IN: dict[str, tuple[str, ...]] = {
    **{name: tuple(row.linear_in.split()) for name, row in OPERATIONS.items() if row.linear_in},
    "Linear": ("x", "weight", "bias"),
    "Embedding": ("weight",),
    "SinusoidalPositions": ("x",),
    "LearnedPositions": ("x", "weight"),
    "RelativeBias": ("weight",),
    "LayerNorm": ("gamma", "beta"),
    "BatchNorm": ("gamma", "beta"),
    "Conv1d": ("x", "weight", "bias"),
    "Dropout": ("x",),
    "MultiHeadAttention": ("value.weight", "value.bias", "output.weight", "output.bias"),
    "FeedForward": ("down.weight", "down.bias"),
    "Transformer": ("generator.weight", "generator.bias"),
    "Encoder": ("head.weight", "head.bias"),
    "Decoder": ("generator.weight", "generator.bias"),
}


@identity("adjoint", "<dy, f(u) − f(0)> = <dx, u> for an input on which the output depends linearly", *LINEAR_IN)
def adjoint(probe: Probe) -> Iterator[Claim]:
    """f(u) = A u + f(0): then L = <dy, f> has the gradient dx = Aᵀ dy, wherever it is taken, and

    <dy, A u> = <Aᵀ dy, u> for every u. A random u is orthogonal to a wrong dx's error with probability 0.
    """
    run = probe.run()
    names = [name for kind in kinds_of(probe.target) for name in LINEAR_IN.get(kind, ())]
    for use, name in enumerate(dict.fromkeys(names)):
        if name not in run.gradients:  # a tied output projection
            continue
        dx = run.gradients[name]
        u = probe.rng(20 + use).normal(size=dx.shape)
        at_u, at_0 = (probe.outputs({name: value}) for value in (u, np.zeros_like(u)))
        terms = [dy * (at_u[y] - at_0[y]) for y, dy in run.upstream.items()]
        scale = sum(float(np.sum(np.abs(x))) for x in (*terms, dx * u))
        yield Claim(f"<d{name}, u>", np.asarray(sum(np.sum(x) for x in terms)), np.sum(dx * u), scale)


FEW, MANY = 6, 8  # nodes; a polynomial of degree 2n − 1 is integrated exactly by n
START, SHORTER, ATTEMPTS = 1 / 64, 1 / 8, 5  # lengths of the path, over the size of each tensor
ROUNDING = 1e-5  # times TOLERANCE: what float64 leaves of a difference of two L


@identity("path-integral", "L(end) − L(start) is the integral of the gradient along the path")
def path_integral(probe: Probe) -> Iterator[Claim]:
    """The gradient identity: for x(t) = x + t·δ, t from 0 to 1, all inputs and parameters moved at once,

    <dy, f(x + δ)> − <dy, f(x)> = ∫ Σ <dx(t), δ> dt

    with dx(t) what backward returns at x(t). Nothing is differenced to get a derivative: the path
    is finite, and the integral is Gauss's rule, exact to rounding for a smooth f. It is computed
    with 6 and with 8 nodes. Where they disagree with each other or with the left side, a kink of ReLU may
    lie on the path (at its end, both rules miss it), so a shorter path from x is tried: it leaves kinks
    behind, but no error. A backward with hidden state (a mask drawn anew) disagrees on every path.
    """
    at = probe.tensors
    if not at:
        raise DoesNotApply("it has no float input and no parameter")
    rng = probe.rng(9)
    direction = {name: rng.normal(size=x.shape) * (np.sqrt(np.mean(x * x)) or 1.0) for name, x in at.items()}
    upstream = probe.random_upstream(probe.outputs())
    for attempt in range(ATTEMPTS):
        delta = {name: np.asarray(START * SHORTER**attempt * x) for name, x in direction.items()}
        claims = _along(probe, at, delta, upstream)
        if all(claim.violation() is None for claim in claims):
            break
    yield from claims


def _along(probe: Probe, at: HostArrays, delta: HostArrays, upstream: HostArrays) -> tuple[Claim, Claim]:
    """The claims on one path: the two rules agree with each other and with the difference of L at its ends."""
    few, _ = _integral(probe, at, delta, upstream, FEW)
    many, scale = _integral(probe, at, delta, upstream, MANY)
    ends = [probe.outputs({name: x + t * delta[name] for name, x in at.items()}) for t in (1.0, 0.0)]
    moved = sum(float(np.sum(dy * (ends[0][y] - ends[1][y]))) for y, dy in upstream.items())
    rounding = ROUNDING * sum(float(np.sum(np.abs(dy * ends[0][y]))) for y, dy in upstream.items())
    return (
        Claim("L(end) − L(start)", np.asarray(many), np.asarray(moved), max(scale, rounding)),
        Claim("the integral, by 6 and by 8 nodes", np.asarray(many), np.asarray(few), scale),
    )


def _integral(probe: Probe, at: HostArrays, delta: HostArrays, upstream: HostArrays, nodes: int) -> tuple[float, float]:
    """(∫ <dx, δ> dt, ∫ Σ|dx·δ| dt) by Gauss's rule on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    total = size = 0.0
    for t, weight in zip((points + 1) / 2, weights / 2, strict=True):
        run = probe.run({name: x + t * delta[name] for name, x in at.items()}, upstream=upstream)
        products = [run.gradients[name] * step for name, step in delta.items()]
        total += weight * sum(float(np.sum(x)) for x in products)
        size += weight * sum(float(np.sum(np.abs(x))) for x in products)
    return total, size
