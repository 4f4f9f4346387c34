"""The cost of a sequence by its length: three kinds of attention, a recurrent net, a convolution.

    full attention n²·d        local, linear attention n        recurrence n·d²        convolution k·n·d²

Measured: forward and backward of one layer on one sequence, with the plain kernels and one thread. The columns are
time and the arrays' peak memory. The exponent is the slope of a straight line through the logarithms.

Source: Vaswani et al. 2017, arXiv:1706.03762, table 1.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, print_table
from npformer.layers import Conv1d, Gru, Layer
from npformer.layers.self_attention import SelfAttention
from npformer.see.plot.charts import Chart, Curve, draw_charts


class Setting(NamedTuple):
    """Lengths T, and the size of a layer."""

    lengths: tuple[int, ...]
    d_model: int = 32
    num_heads: int = 2
    window: int = 32
    kernel_size: int = 3
    rounds: int = 7


class Cost(NamedTuple):
    """One layer's measurements, one for each length."""

    seconds: list[float]
    megabytes: list[float]
    time_exponent: float
    memory_exponent: float


FULL = Setting(lengths=(128, 256, 512, 1024, 2048, 4096))
SMALL = Setting(lengths=(128, 256, 512), rounds=2)


def layers(setting: Setting) -> dict[str, Layer]:
    """The five kinds of layer, all of width d_model."""
    backend = npf.get_backend("numpy", kernels="plain", threads=1)

    def attention(*words: object) -> Layer:
        kind = SelfAttention(*words)  # type: ignore[arg-type]
        return kind.build(setting.d_model, setting.num_heads, dropout=0.0, backend=backend, seed=0)

    return {
        "full attention": attention("full"),
        "local attention": attention("local", setting.window),
        "linear attention": attention("linear"),
        "GRU": Gru(setting.d_model, setting.d_model, backend=backend),
        "convolution": Conv1d(setting.d_model, setting.d_model, setting.kernel_size, backend=backend),
    }


def measure(setting: Setting) -> dict[str, Cost]:
    """Measure every kind at every length, in turns, so that a disturbance of the machine affects all of them."""
    kinds, rng = layers(setting), np.random.default_rng(0)
    inputs = [rng.normal(size=(1, length, setting.d_model)).astype("float32") for length in setting.lengths]
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in inputs] for name in kinds}
    for _ in range(setting.rounds + 1):  # the first round warms up
        for name, layer in kinds.items():
            for i, x in enumerate(inputs):
                start = time.perf_counter()
                run(layer, x)
                seconds[name][i].append(time.perf_counter() - start)
    by_name = {}
    for name, layer in kinds.items():
        best = [min(times[1:]) for times in seconds[name]]
        most = [peak(lambda layer=layer, x=x: run(layer, x)) / 1e6 for x in inputs]
        slopes = exponent(setting.lengths, best), exponent(setting.lengths, most)
        by_name[name] = Cost(best, most, *slopes)
    return by_name


def run(layer: Layer, x: np.ndarray) -> None:
    """One forward and one backward of x (1, T, C)."""
    y, cache = layer.forward(x)
    layer.backward(y, cache)


def peak(function: Callable[[], None]) -> float:
    """The peak bytes of the function's arrays."""
    tracemalloc.start()
    try:
        function()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def exponent(lengths: tuple[int, ...], costs: list[float]) -> float:
    """The exponent p of the best-fitting power law cost ∝ T^p."""
    return float(np.polyfit(np.log(lengths), np.log(costs), 1)[0])


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    measured, last = measure(setting), setting.lengths[-1]
    rows = [
        (name, 1e3 * c.seconds[0], 1e3 * c.seconds[-1], c.megabytes[-1], c.time_exponent, c.memory_exponent)
        for name, c in measured.items()
    ]
    headings = ["", f"ms at {setting.lengths[0]}", f"ms at {last}", f"MB at {last}", "time ∝ T^", "memory ∝ T^"]
    print_table(headings, rows)
    milliseconds = [
        Curve(f"{name}  T^{c.time_exponent:.2f}", setting.lengths, [1e3 * s for s in c.seconds])
        for name, c in measured.items()
    ]
    megabytes = [
        Curve(f"{name}  T^{c.memory_exponent:.2f}", setting.lengths, c.megabytes) for name, c in measured.items()
    ]
    charts = [
        Chart("time", "length T (tokens)", "milliseconds", milliseconds, log_x=True, log_y=True),
        Chart("memory", "length T (tokens)", "megabytes at the peak", megabytes, log_x=True, log_y=True),
    ]
    what = f"d = {setting.d_model}, {setting.num_heads} heads, window {setting.window}, kernel {setting.kernel_size}"
    notes = [f"Forward and backward of one layer, one sequence, one thread; {what}. Behind the names: fitted powers."]
    draw_charts(charts, path, "What a layer costs, by the length of the sequence", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("cost_and_length", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
