"""One number of an update, and how it went over many, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npformer.explain.text import number
from npformer.explain.update import Update
from npformer.io.terminal import fill


def row(name: str, text: str, width: int) -> str:
    """A paragraph beside the name of its section."""
    return fill(text, width, f"{name:12}", " " * 12)


def number_lines(update: Update, name: str, clip_norm: float | None, eps: float, width: int) -> Iterator[str]:
    """One entry's way through an update, each line with its numbers."""
    (beta1, beta2), t, u = update.betas, update.t, update
    kept1, kept2 = 1 - beta1**t, 1 - beta2**t
    adaptive, root = u.by_past + u.by_gradient, f"({u.v_hat**0.5:.3e} + {eps:.0e})"
    g, m, clipped = number(u.gradient), number(u.m), number(u.clipped)
    most = max(u.norm, clip_norm or 0)
    for title, text in (
        ("number", f"{name} = {u.before:.8g}, at update {t}"),
        ("gradient", f"g = {g}; the norm of all gradients is n = {u.norm:.4g}"),
        ("clipping", f"g ← g·c/max(n, c) = {g}·{clip_norm:.4g}/{most:.4g} = {clipped}" if clip_norm else "none"),
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
