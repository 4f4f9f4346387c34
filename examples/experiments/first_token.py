"""How much of the last output's gradient reaches the first token, by the distance between them.

A recurrent net sends the gradient back through every step between. Each step shrinks it, so it falls exponentially.
Attention has a direct path: the gradient is shared among the attended tokens and falls as 1/T. A stack of
convolutions has no path beyond its receptive field.

The layers are untrained, the tokens random, the dtype float64. The gradient at the first token is divided by the
gradient that enters at the last output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, print_table
from npformer.layers import Conv1d, EncoderStack, Gru, Layer
from npformer.see.plot.charts import Chart, Curve, draw_charts


class Setting(NamedTuple):
    """Distances in tokens, and the sizes of the nets."""

    distances: tuple[int, ...]
    d_model: int = 64
    num_layers: int = 2
    convolutions: int = 8
    seeds: int = 8


FULL = Setting(distances=(1, 2, 4, 8, 16, 32, 64, 128))
SMALL = Setting(distances=(1, 4, 16, 64), d_model=16, seeds=3)


def measure(setting: Setting) -> dict[str, list[float]]:
    """Name of the net -> |dx_first| / |dy_last| at each distance, the median over the seeds."""
    by_name: dict[str, list[list[float]]] = {}
    for seed in range(setting.seeds):
        for name, layers in nets(setting, seed).items():
            ratios = [ratio(layers, distance + 1, setting.d_model, seed) for distance in setting.distances]
            by_name.setdefault(name, []).append(ratios)
    return {name: np.median(rows, axis=0).tolist() for name, rows in by_name.items()}


def nets(setting: Setting, seed: int) -> dict[str, list[Layer]]:
    """Stacks of layers: a Transformer, as many GRUs, and causal convolutions."""
    backend, rng, width = (
        npf.get_backend("numpy", "float64", kernels="plain"),
        np.random.default_rng(seed),
        setting.d_model,
    )
    options = {"num_heads": 4, "d_ff": 4 * width, "norm_order": "pre"}
    convolutions = (
        Conv1d(width, width, 3, causal=True, backend=backend, seed=rng) for _ in range(setting.convolutions)
    )
    return {
        "Transformer": [EncoderStack(setting.num_layers, width, backend=backend, seed=rng, **options)],
        "GRU": [Gru(width, width, backend=backend, seed=rng) for _ in range(setting.num_layers)],
        "convolution": list(convolutions),
    }


def ratio(layers: list[Layer], length: int, width: int, seed: int) -> float:
    """Send a random gradient from the last token of a random sequence through the layers."""
    rng = np.random.default_rng([seed, length])
    y, caches = rng.normal(size=(1, length, width)), []
    for layer in layers:
        y, cache = layer.forward(y)
        caches.append(cache)
    dy = np.zeros_like(y)
    dy[:, -1] = rng.normal(size=width)
    sent = np.linalg.norm(dy)
    for layer, cache in zip(reversed(layers), reversed(caches), strict=True):
        dy = layer.backward(dy, cache)
        dy = dy[0] if isinstance(dy, tuple) else dy  # a GRU's initial state has a gradient too
    return float(np.linalg.norm(dy[:, 0]) / sent)


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    measured = measure(setting)
    print_table(
        ["tokens between", *measured],
        [(str(d), *(f"{measured[name][i]:.1e}" for name in measured)) for i, d in enumerate(setting.distances)],
    )
    curves = [Curve(name, setting.distances, [y or float("nan") for y in ys]) for name, ys in measured.items()]
    chart = Chart(
        "gradient at the first token", "distance to the output (tokens)", "share of the gradient sent from the end",
        curves, log_x=True, log_y=True,
    )  # fmt: skip
    reach = 2 * setting.convolutions
    notes = [
        f"Fresh nets, d = {setting.d_model}: {setting.num_layers} pre-LN layers, {setting.num_layers} GRUs; "
        f"{setting.convolutions} convolutions reach {reach} tokens: beyond, exactly 0."
    ]
    draw_charts([chart], path, "Does the end hear of the beginning?", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("first_token", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
