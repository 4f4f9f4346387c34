"""Adam over an arena by one kernel, and the global norm of its gradient, with the factor that clips it, by two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from npformer.backend.arena import Run
from npformer.backend.cuda.card import Card, whole_blocks
from npformer.typing import Array, HostArray

#: Threads of a block, and the elements it takes at a time.
THREADS, STRETCH = 256, 2048
#: Blocks that share a sum, at most.
SHARING = 528


class Runs(NamedTuple):
    """An arena's trainable runs as kernels want them, both on the card."""

    places: Array  # (R, 2) int64    start, stop, in order and apart from each other
    scales: Array  # (R, 2) float64  lr_scale; weight_decay times the optimiser's


def runs_table(runs: Iterable[Run], weight_decay: float = 0.0) -> tuple[HostArray, HostArray]:
    """The two arrays of Runs for ``arena.runs()``, on the host; weight_decay is the optimiser's."""
    runs = list(runs)
    places = np.array([(run.where.start, run.where.stop) for run in runs], np.int64).reshape(-1, 2)
    scales = np.array([(run.lr_scale, weight_decay * run.weight_decay) for run in runs], np.float64).reshape(-1, 2)
    return places, scales


def adam_rates(lr: float, betas: tuple[float, float], t: int) -> tuple[float, float, float]:
    """What ``rates`` holds in update t = 1, 2, …: lr, 1/(1 − β₁ᵗ), 1/(1 − β₂ᵗ)."""
    return lr, 1 / (1 - betas[0] ** t), 1 / (1 - betas[1] ** t)


def adam_update(
    card: Card, p: Array, g: Array, m: Array, v: Array, runs: Runs, rates: Array, betas: tuple[float, float],
    eps: float, shrink: Array | None = None,
) -> None:  # fmt: skip
    """One update, in place, of the runs of flat arrays (n,).

    rates (3,), float64 on the card, holds ``adam_rates``; shrink (), if given, multiplies the gradient.
    """
    if p.size and len(runs.places):
        card.launch(
            "adam.adam", p.dtype, whole_blocks(p.size, STRETCH), THREADS,
            p, g, m, v, runs.places, runs.scales, len(runs.places), p.size, STRETCH, rates, shrink, *betas, eps,
        )  # fmt: skip


def gradient_norm(card: Card, g: Array, runs: Runs, longest: float | None = None) -> tuple[Array, Array | None]:
    """(norm, shrink) of the runs of g (n,), scalars () on the card.

    shrink = longest/max(norm, longest) is what clipping to longest multiplies the gradient by; None without longest.
    """
    blocks = min(SHARING, whole_blocks(g.size, STRETCH))
    partials = card.empty((blocks,), g.dtype)
    card.launch(
        "adam.square_partials", g.dtype, blocks, THREADS,
        g, runs.places, len(runs.places), g.size, STRETCH, partials,
    )  # fmt: skip
    norm = card.empty((), g.dtype)
    shrink = None if longest is None else card.empty((), g.dtype)
    card.launch("adam.length_of", g.dtype, 1, THREADS, partials, norm, shrink, blocks, float(longest or 0.0))
    return norm, shrink
