"""One update of Adam, number by number: clipping, both moments, their corrections, and what each part moves.

    g ← g·c/max(n, c)                              n is the norm of all gradients, c the clip norm
    m ← β₁m + (1 − β₁)g      v ← β₂v + (1 − β₂)g²
    p ← p − lr·λ·p − lr·m̂/(√v̂ + ε)                m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)

m is a sum, so the change of p is one, too: what the past moves (β₁ times the old m), what this gradient moves
((1 − β₁)g), and the decay. √v̂ divides both. All is computed in float64 from the optimiser's state; nothing is updated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from npformer.optim import Adam
from npformer.typing import HostArray


class Update(NamedTuple):
    """An update: arrays (n,) over the arena, or the numbers of one entry."""

    t: int  # counts from 1
    betas: tuple[float, float]
    norm: float  # of all trainable gradients, before clipping
    factor: float  # by which clipping multiplies them: 1 for nothing
    gradient: Any
    clipped: Any
    m_before: Any
    v_before: Any
    m: Any
    v: Any
    m_hat: Any
    v_hat: Any
    rate: Any  # 0 where nothing is trained
    before: Any  # the parameter
    by_past: Any
    by_gradient: Any
    decay: Any
    change: Any  # the sum of these three
    uncorrected: Any  # the change without decay, had m and v no corrections

    def at(self, place: int) -> Update:
        """The numbers of one entry of the arena."""
        numbers: dict[str, Any] = {n: float(x[place]) for n, x in self._asdict().items() if isinstance(x, np.ndarray)}
        return self._replace(**numbers)


def update_of(adam: Adam, lr: float, clip_norm: float | None) -> Update:
    """The update that ``adam.step(lr)`` would make after clipping, from the gradients in its arena."""
    arena, (beta1, beta2), t = adam.arena, adam.betas, adam.t + 1
    p, g, m_before, v_before = (_host(arena, x) for x in (arena.values, arena.grads, adam.m, adam.v))
    rate, decay, trained = np.zeros_like(p), np.zeros_like(p), np.zeros(p.shape, bool)
    for run in arena.runs():
        rate[run.where], trained[run.where] = lr * run.lr_scale, True
        decay[run.where] = -lr * run.lr_scale * adam.weight_decay * run.weight_decay * p[run.where]
    norm = math.sqrt(float(np.sum(g[trained] ** 2)))
    factor = 1.0 if clip_norm is None or math.isinf(clip_norm) else clip_norm / max(norm, clip_norm)
    clipped = g * factor
    m, v = beta1 * m_before + (1 - beta1) * clipped, beta2 * v_before + (1 - beta2) * clipped**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    per_m = -rate / (1 - beta1**t) / (np.sqrt(v_hat) + adam.eps)
    by_past, by_gradient = per_m * beta1 * m_before, per_m * (1 - beta1) * clipped
    return Update(
        t, adam.betas, norm, factor, g, clipped, m_before, v_before, m, v, m_hat, v_hat, rate, p, by_past, by_gradient,
        decay, by_past + by_gradient + decay, -rate * m / (np.sqrt(v) + adam.eps),
    )  # fmt: skip


def _host(arena: Any, array: Any) -> HostArray:
    return np.array(arena.backend.host(array), dtype=np.float64)
