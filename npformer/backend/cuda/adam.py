"""Adam over an arena by one kernel, and the global norm of its gradient, with the factor that clips it, by two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.arena import Run
from npformer.backend.cuda.device_runtime import DeviceRuntime, whole_blocks
from npformer.typing import Array, HostArray

#: Threads of a block, and the elements that a block processes.
THREADS, STRETCH = 256, 2048
#: Blocks that share a sum, at most.
SHARING = 528


class Runs(NamedTuple):
    """An arena's trainable runs, as two arrays on the GPU for the kernels."""

    places: Array  # (R, 2) int64    start, stop, in order and apart from each other
    scales: Array  # (R, 2) float64  lr_scale; weight_decay times the optimiser's


def runs_table(runs: Iterable[Run], weight_decay: float = 0.0) -> tuple[HostArray, HostArray]:
    """The two arrays of Runs for ``arena.runs()``, on the host; weight_decay is the optimiser's."""
    runs = list(runs)
    places = np.array([(run.where.start, run.where.stop) for run in runs], np.int64).reshape(-1, 2)
    scales = np.array([(run.lr_scale, weight_decay * run.weight_decay) for run in runs], np.float64).reshape(-1, 2)
    return places, scales


def adam_update(
    gpu: DeviceRuntime, p: Array, g: Array, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
    lr_scale: float = 1.0, weight_decay: float = 0.0, shrink: Array | None = None,
) -> None:  # fmt: skip
    """One update of flat arrays (n,), in place.

    rates (3,), float64 on the GPU, holds lr, 1/(1 − β₁ᵗ), 1/(1 − β₂ᵗ); shrink (), if given, multiplies the gradient.
    """
    _update(gpu, (p, g, m, v), (None, None, 1), rates, shrink, (*betas, eps, lr_scale, weight_decay))


def adam_over_runs(
    gpu: DeviceRuntime, p: Array, g: Array, m: Array, v: Array, runs: Runs, rates: Array, betas: tuple[float, float],
    eps: float, shrink: Array | None = None,
) -> None:  # fmt: skip
    """``adam_update`` of each run of whole arenas, all in one kernel."""
    _update(gpu, (p, g, m, v), (*runs, len(runs.places)), rates, shrink, (*betas, eps, 1.0, 0.0))


def _update(
    gpu: DeviceRuntime, flats: tuple[Array, ...], runs: tuple[Any, ...], rates: Array, shrink: Array | None,
    numbers: tuple[float, ...],
) -> None:  # fmt: skip
    size, dtype = flats[0].size, flats[0].dtype
    if size:
        blocks = whole_blocks(size, STRETCH)
        fractions = map(float, numbers)
        gpu.launch("adam.adam", dtype, blocks, THREADS, *flats, *runs, size, STRETCH, rates, shrink, *fractions)


def gradient_norm(gpu: DeviceRuntime, g: Array, runs: Runs, longest: float | None = None) -> tuple[Array, Array | None]:
    """(norm, shrink) of the runs of an arena's gradient g (n,), scalars () on the GPU.

    shrink = longest/max(norm, longest) is what clipping to longest multiplies the gradient by; None without longest.
    """
    dtype, blocks = g.dtype, min(SHARING, whole_blocks(g.size, STRETCH))
    partials, norm = gpu.empty((blocks,), dtype), gpu.empty((), dtype)
    shrink = None if longest is None else gpu.empty((), dtype)
    places = (runs.places, len(runs.places))
    gpu.launch("adam.square_partials", dtype, blocks, THREADS, g, *places, g.size, STRETCH, partials)
    gpu.launch("adam.length_of", dtype, 1, THREADS, partials, norm, shrink, blocks, float(longest or 0.0))
    return norm, shrink
