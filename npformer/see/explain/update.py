"""One update of Adam, number by number: clipping, both moments, their corrections, and what each part moves.

    g ← g·c/max(n, c)                              n is the norm of all gradients, c the clip norm
    m ← β₁m + (1 − β₁)g      v ← β₂v + (1 − β₂)g²
    p ← p − lr·λ·p − lr·m̂/(√v̂ + ε)                m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)

m is a sum, so the change of p is one, too: what the past moves (β₁ times the old m), what this gradient moves
((1 − β₁)g), and the decay. √v̂ divides both. All is computed in float64 from the optimiser's state; nothing is updated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.io.terminal import fill
from npformer.optim import Adam
from npformer.see.explain.text import number


class Update(NamedTuple):
    """An update: arrays (n,) over the arena, or the numbers of one entry."""

    t: int  # counts from 1
    betas: tuple[float, float]
    eps: float
    clip_norm: float | None
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
    """The update that ``adam.step(lr)`` would make on the host after clipping, from the gradients in its arena."""
    arena, (beta1, beta2), t = adam.arena, adam.betas, adam.t + 1
    p, g, m_before, v_before = map(np.array, (arena.values, arena.grads, adam.m, adam.v))
    rate, decay, trained = np.zeros_like(p), np.zeros_like(p), np.zeros(p.shape, bool)
    for run in arena.runs():
        rate[run.where], trained[run.where] = lr * run.lr_scale, True
        decay[run.where] = -lr * run.lr_scale * adam.weight_decay * run.weight_decay * p[run.where]
    norm = math.sqrt(float(np.sum(g[trained] ** 2)))
    clip_norm = None if clip_norm == math.inf else clip_norm
    factor = 1.0 if clip_norm is None else clip_norm / max(norm, clip_norm)
    clipped = g * factor
    m, v = beta1 * m_before + (1 - beta1) * clipped, beta2 * v_before + (1 - beta2) * clipped**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    per_m = -rate / (1 - beta1**t) / (np.sqrt(v_hat) + adam.eps)
    by_past, by_gradient = per_m * beta1 * m_before, per_m * (1 - beta1) * clipped
    return Update(
        t, adam.betas, adam.eps, clip_norm, norm, factor, g, clipped, m_before, v_before, m, v, m_hat, v_hat, rate, p,
        by_past, by_gradient, decay, by_past + by_gradient + decay, -rate * m / (np.sqrt(v) + adam.eps),
    )  # fmt: skip


def row(name: str, text: str, width: int) -> str:
    """A paragraph beside the name of its section."""
    return fill(text, width, f"{name:12}", " " * 12)


def number_lines(update: Update, name: str, width: int) -> Iterator[str]:
    """One entry's way through an update, each line with its numbers."""
    (beta1, beta2), t, u = update.betas, update.t, update
    kept1, kept2 = 1 - beta1**t, 1 - beta2**t
    adaptive, root = u.by_past + u.by_gradient, f"({u.v_hat**0.5:.3e} + {u.eps:.0e})"
    g, m, clipped = number(u.gradient), number(u.m), number(u.clipped)
    most = max(u.norm, u.clip_norm or 0)
    for title, text in (
        ("number", f"{name} = {u.before:.8g}, at update {t}"),
        ("gradient", f"g = {g}; the norm of all gradients is n = {u.norm:.4g}"),
        ("clipping", f"g ← g·c/max(n, c) = {g}·{u.clip_norm:.4g}/{most:.4g} = {clipped}" if u.clip_norm else "none"),
        ("mean", f"m ← β₁m + (1 − β₁)g = {beta1:g}·({number(u.m_before)}) + {1 - beta1:.3g}·({clipped}) = {m}"),
        ("square", f"v ← β₂v + (1 − β₂)g² = {beta2:g}·{u.v_before:.3e} + {1 - beta2:.3g}·({clipped})² = {u.v:.3e}"),
        ("corrected", f"m̂ = m/(1 − {beta1:g}^{t}) = {m}/{kept1:.4g} = {number(u.m_hat)}"),
        ("", f"v̂ = v/(1 − {beta2:g}^{t}) = {u.v:.3e}/{kept2:.4g} = {u.v_hat:.3e}"),
        ("step", f"−lr·m̂/(√v̂ + ε) = −{u.rate:.3g}·({number(u.m_hat)})/{root} = {number(adaptive)}, "
                 f"{lengths(u, adaptive)}"),
        ("decay", f"−lr·λ·w = {number(u.decay)}" if u.decay else "none"),
        ("parts", f"past gradients {number(u.by_past)}, this one {number(u.by_gradient)}"),
        ("then", f"{u.before:.8g} {number(u.change)} → {u.before + u.change:.8g}"),
    ):  # fmt: skip
        yield row(title, text, width)


def lengths(update: Update, change: float) -> str:
    """A change in learning rates."""
    return f"{abs(change) / update.rate:.2f} of the rate" if update.rate else "since the rate is 0 here"


def course_lines(course: Sequence[Update], width: int) -> Iterator[str]:
    """What became of one entry in many updates; and why the first steps are as large as they are."""
    yield "  t       gradient        clipped             m̂           √v̂    step/lr   without corrections"
    for u in course:
        cells = f"{u.t:3}{u.gradient:+15.3e}{u.clipped:+15.3e}{u.m_hat:+15.3e}{u.v_hat**0.5:14.3e}"
        yield f"{cells}{u.change / (u.rate or 1):+11.3f}{u.uncorrected / (u.rate or 1):+13.3f}"
    (beta1, beta2), first = course[0].betas, course[0]
    alike = [(1 - beta1**t) / (1 - beta2**t) ** 0.5 for t in range(1, 2000)]
    most = max(range(len(alike)), key=alike.__getitem__)
    yield "\n" + fill(
        f"The first step is {lengths(first, first.change)}: after one update m̂ = g and √v̂ = |g|, whatever the size of "
        "g. So at first every number moves by the rate, in the direction of its gradient's sign, and clipping changes "
        "nothing. Later steps are shorter where gradients change their sign: m̂ is their mean, √v̂ their size. This is "
        "why the rate begins small and warms up: the first directions come from one batch, and are followed in full.",
        width,
    )
    yield fill(
        f"Without corrections, gradients that are all alike would move a number by {alike[0]:.2f} of the rate at t = 1 "
        f"and by {alike[most]:.2f} at t = {most + 1}, since β₁ = {beta1:g} and β₂ = {beta2:g} forget 0, with which m "
        "and v begin, at different speeds.",
        width,
    )
