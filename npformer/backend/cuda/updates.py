"""The end of a training step on a GPU: the gradient's norm in two kernels, clipping and Adam in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from npformer.backend.arena import Arena
from npformer.backend.cuda.adam import Runs, adam_over_runs, adam_update, gradient_norm, runs_table
from npformer.backend.cuda.device_runtime import DeviceRuntime
from npformer.typing import Array, HostArray


class DeviceUpdates:
    """``backend.ArenaUpdates`` on a GPU; upload(host, dtype) copies numbers to it.

    The table of an arena's runs is copied on first use, which must not happen while a graph is recorded.
    """

    def __init__(self, gpu: DeviceRuntime, upload: Callable[[HostArray, str], Array]) -> None:
        self._gpu, self._upload = gpu, upload
        self._tables: WeakKeyDictionary[Arena, dict[float, tuple[Any, Runs]]] = WeakKeyDictionary()

    def gradient_norm(self, arena: Arena, longest: float | None) -> tuple[Array, Array | None]:
        return gradient_norm(self._gpu, arena.grads, self._runs(arena, 0.0), longest)

    def adam(
        self, arena: Arena, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
        weight_decay: float, shrink: Array | None,
    ) -> None:  # fmt: skip
        runs = self._runs(arena, weight_decay)
        adam_over_runs(self._gpu, arena.values, arena.grads, m, v, runs, rates, betas, eps, shrink)

    def by_host_numbers(
        self, p: Array, g: Array, m: Array, v: Array, lr: float, betas: tuple[float, float], eps: float, t: int,
        decay: float,
    ) -> None:  # fmt: skip
        """``Backend.adam_update``: one run, with Python numbers as scalars."""
        host = np.array([lr, 1 / (1 - betas[0] ** t), 1 / (1 - betas[1] ** t)])
        rates = self._upload(host, "float64")
        adam_update(self._gpu, p, g, m, v, rates, betas, eps, weight_decay=decay / lr if lr else 0.0)

    def _runs(self, arena: Arena, weight_decay: float) -> Runs:
        """The arena's current table for this weight decay."""
        tables = self._tables.setdefault(arena, {})
        segments, runs = tables.get(weight_decay, (None, None))
        if runs is None or segments is not arena.segments:
            places, scales = runs_table(arena.runs(decaying=weight_decay > 0), weight_decay)
            runs = Runs(self._upload(places, "int64"), self._upload(scales, "float64"))
            tables[weight_decay] = arena.segments, runs
        return runs
