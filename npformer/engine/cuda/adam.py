"""The end of a training step: Adam over an arena by one kernel, its gradient's norm and the clipping factor by two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from npformer.backend.arena import Arena, SegmentRun
from npformer.engine.cuda.device_runtime import DeviceRuntime, whole_blocks
from npformer.typing import Array, HostArray

#: Threads of a block, and the elements that a block processes.
THREADS, STRETCH = 256, 2048
#: Blocks that share a sum, at most.
SHARING = 528


class Runs(NamedTuple):
    """An arena's trainable runs, as two arrays on the GPU for the kernels."""

    places: Array  # (R, 2) int64    start, stop, in order and apart from each other
    scales: Array  # (R, 2) float64  lr_scale; weight_decay times the optimiser's


def runs_table(runs: Iterable[SegmentRun], weight_decay: float = 0.0) -> tuple[HostArray, HostArray]:
    """The two arrays of Runs for ``arena.runs()``, on the host; weight_decay is the optimiser's."""
    runs = list(runs)
    places = np.array([(run.where.start, run.where.stop) for run in runs], np.int64).reshape(-1, 2)
    scales = np.array([(run.lr_scale, weight_decay * run.weight_decay) for run in runs], np.float64).reshape(-1, 2)
    return places, scales


def adam_update(
    gpu: DeviceRuntime, p: Array, g: Array, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
    weight_decay: float = 0.0, shrink: Array | None = None, runs: Runs | None = None,
) -> None:  # fmt: skip
    """One update of flat arrays (n,), in place; with runs, of those of whole arenas, all in one kernel.

    rates (3,), float64 on the GPU, holds lr, 1/(1 − β₁ᵗ), 1/(1 − β₂ᵗ); shrink (), if given, multiplies the gradient.
    """
    if p.size:
        places = (None, None, 1) if runs is None else (*runs, len(runs.places))
        numbers = map(float, (*betas, eps, weight_decay))
        gpu.launch(
            "adam.adam", p.dtype, whole_blocks(p.size, STRETCH), THREADS,
            p, g, m, v, *places, p.size, STRETCH, rates, shrink, *numbers,
        )  # fmt: skip


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


class DeviceUpdates:
    """The end of a training step over a whole arena, with all scalars on a GPU; upload(host, dtype) copies there.

    The table of an arena's runs is copied on first use, which must not happen while a graph is recorded.
    """

    def __init__(self, gpu: DeviceRuntime, upload: Callable[[HostArray, str], Array]) -> None:
        self._gpu, self._upload = gpu, upload
        self._tables: WeakKeyDictionary[Arena, dict[float, tuple[Any, Runs]]] = WeakKeyDictionary()

    def gradient_norm(self, arena: Arena, longest: float | None) -> tuple[Array, Array | None]:
        """The norm () of the trainable gradients, and the factor () that clips it to longest; None without longest."""
        return gradient_norm(self._gpu, arena.grads, self._runs(arena, 0.0), longest)

    def adam(
        self, arena: Arena, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
        weight_decay: float, shrink: Array | None,
    ) -> None:  # fmt: skip
        """Adam's update of all trainable segments, with gradients times shrink (); rates (3,) as in ``Adam.rates``."""
        runs = self._runs(arena, weight_decay)
        adam_update(self._gpu, arena.values, arena.grads, m, v, rates, betas, eps, shrink=shrink, runs=runs)

    def by_host_numbers(
        self, p: Array, g: Array, m: Array, v: Array, lr: float, betas: tuple[float, float], eps: float, t: int,
        decay: float,
    ) -> None:  # fmt: skip
        """``Capabilities.adam_update``: one run, with Python numbers as scalars."""
        host = np.array([lr, 1 / (1 - betas[0] ** t), 1 / (1 - betas[1] ** t)])
        rates = self._upload(host, "float64")
        adam_update(self._gpu, p, g, m, v, rates, betas, eps, weight_decay=decay / lr if lr else 0.0)

    def _runs(self, arena: Arena, weight_decay: float) -> Runs:
        """The arena's current table for this weight decay."""
        tables = self._tables.setdefault(arena, {})
        segments, runs = tables.get(weight_decay, (None, None))
        if runs is None or segments != arena.segments:  # equal ones: records read the table
            places, scales = runs_table(arena.runs(decaying=weight_decay > 0), weight_decay)
            runs = Runs(self._upload(places, "int64"), self._upload(scales, "float64"))
            tables[weight_decay] = arena.segments, runs
        return runs
