"""How large gradients are: with and without √d_k, through many layers, in depth, and by initial values.

    without √d_k     scores have deviation √d_k, one key takes all, and most scores' gradients vanish
    a stack          each layer multiplies the gradient by its gain, so 12 layers by gain¹²
    depth            the last layer's gradient: the same at every depth with post-LN, about 1/√L with pre-LN
    initial values   the first loss beside ln V, and the gradient of each part

Each chart is one of them; all models are fresh, so nothing is trained. ``npformer explain sizes`` prints one seed.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1; Glorot & Bengio 2010; Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from examples.experiments.common import command, print_table
from examples.experiments.initialisation import INITS, pytorch_default
from npformer.see.explain.sizes import LOSS, attention_sizes, depth_norms, parts_of, through_relus, transformer
from npformer.see.plot.charts import Chart, Curve, draw_charts

ORDERS = {"post-LN": "post", "pre-LN": "pre"}


class Setting(NamedTuple):
    """Seeds, and what is varied."""

    seeds: int
    widths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    layers: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12)
    gains: tuple[float, ...] = (0.7, 0.9, 1.0, 1.1, 1.4)
    depths: tuple[int, ...] = (1, 2, 4, 8, 12, 18)


FULL = Setting(seeds=5)
SMALL = Setting(seeds=1, widths=(8, 64), layers=(1, 4), depths=(1, 3))


def attention(setting: Setting) -> dict[str, list[tuple[float, float]]]:
    """The mean largest weight and the median of a score's gradient, at each width, with the scale and without."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, scaled in (("without √d_k", False), ("with", True)):
        for width in setting.widths:
            pairs = [attention_sizes(width, scaled, np.random.default_rng(seed)) for seed in range(setting.seeds)]
            found.setdefault(name, []).append((mean(one for one, _ in pairs), mean(other for _, other in pairs)))
    return found


def stack(setting: Setting) -> dict[float, list[float]]:
    """What arrives of a gradient, after each number of layers, for each gain."""
    seeds = range(setting.seeds)
    return {
        gain: [mean(through_relus(gain, n, np.random.default_rng(seed)) for seed in seeds) for n in setting.layers]
        for gain in setting.gains
    }


def depth(setting: Setting) -> dict[str, list[float]]:
    """The norm of the last layer's gradient, at each depth."""
    seeds = range(setting.seeds)
    return {
        name: [mean(depth_norms(order, layers, seed)[-1] for seed in seeds) for layers in setting.depths]
        for name, order in ORDERS.items()
    }


def initial(setting: Setting) -> dict[str, dict[str, float]]:
    """The first loss, and the norm of each part's gradient, from each kind of initial values."""
    found = {}
    for init in INITS:
        runs = []
        for seed in range(setting.seeds):
            model = transformer(seed, init="small" if init == "small" else "xavier")
            if init == "pytorch":
                pytorch_default(model, seed)
            runs.append(parts_of(model, seed))
        found[init] = {part: mean(run[part] for run in runs) for part in runs[0]}
    return found


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the tables, draw the picture."""
    by_scale, through, by_depth, by_init = attention(setting), stack(setting), depth(setting), initial(setting)
    for what, place in (("largest weight, d_k:", 0), ("gradient of a score, d_k:", 1)):
        rows = [(name, *(float(pair[place]) for pair in pairs)) for name, pairs in by_scale.items()]
        print_table([what, *setting.widths], rows)
        print()
    print_table(["of a gradient arrives, layers:", *setting.layers], [(f"gain {g:g}", *v) for g, v in through.items()])
    print()
    print_table(["gradient of the last W₂, layers:", *setting.depths], [(n, *v) for n, v in by_depth.items()])
    print()
    parts = (LOSS, "src_embedding", "encoder.layers.0.feed_forward", "decoder.layers.1.feed_forward", "generator")
    print_table(["initial values", *parts], [(i, *(found[part] for part in parts)) for i, found in by_init.items()])
    charts = [
        Chart("a score's gradient", "d_k", "median size", [
            Curve(name, setting.widths, [pair[1] for pair in pairs], dots=True) for name, pairs in by_scale.items()
        ], log_x=True, log_y=True),
        Chart("a gradient through ReLU layers", "layers", "share that arrives", [
            Curve(f"gain {gain:g}", setting.layers, values, dots=True) for gain, values in through.items()
        ], log_y=True),
        Chart("fresh encoders", "layers", "gradient of the last W₂", [
            Curve(name, setting.depths, values, dots=True) for name, values in by_depth.items()
        ], log_x=True),
        Chart("a fresh Transformer", "part, from the input", "norm of the gradient", [
            Curve(f"{init}, {LOSS} {found[LOSS]:.2f}", range(1, len(found)), [*found.values()][1:], dots=True)
            for init, found in by_init.items()
        ], log_y=True),
    ]  # fmt: skip
    draw_charts(charts, path, "The size of gradients", [f"Nothing is trained; means of {setting.seeds} seeds."])


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("gradient_sizes", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
