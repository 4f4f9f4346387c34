"""LayerNorm and BatchNorm where sentences differ in length: under padding, and in small batches.

LayerNorm uses the statistics of each token alone. BatchNorm uses those of all tokens of a batch: counted padding
changes every output, and leaving padding out takes a mask. The smaller the batch, the worse the estimates, and the
further training is from inference, which uses running statistics.

Left: the relative change of the same tokens' outputs as padding is added. Right: reversing words of 4 to
12 letters, with the same number of steps for every batch size.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import accuracy, command, fit, print_table
from examples.experiments.tagger import Tagger
from npformer.data import SequenceTask
from npformer.data.batches import collate
from npformer.io.percent import percent
from npformer.layers import BatchNorm, Context, LayerNorm
from npformer.see.plot.charts import Chart, Curve, draw_charts

LAYER, COUNTING, MASKED = "LayerNorm", "BatchNorm, padding counted", "BatchNorm, padding left out"


class Setting(NamedTuple):
    """The training runs: batch sizes, steps, and the size of the model."""

    batch_sizes: tuple[int, ...]
    steps: int
    d_model: int = 32
    num_layers: int = 2
    held_out: int = 500


FULL = Setting(batch_sizes=(1, 2, 4, 8, 16, 32, 64), steps=1000)
SMALL = Setting(batch_sizes=(1, 8), steps=40, d_model=16, num_layers=1, held_out=50)
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)


def moved_by_padding(shares: tuple[float, ...], d_model: int) -> dict[str, list[float]]:
    """The relative change of the same tokens' outputs when this share of the batch is padding."""
    backend, rng = npf.get_backend("numpy", "float64", kernels="plain"), np.random.default_rng(0)
    tokens, pad = rng.normal(size=(1, 900, d_model)), rng.normal(size=d_model)  # [PAD] has a vector, too
    by_name: dict[str, list[float]] = {LAYER: [], COUNTING: [], MASKED: []}
    for share in shares:
        count = round(900 * share / (1 - share))
        x = np.concatenate([tokens, np.broadcast_to(pad, (1, count, d_model))], axis=1)
        visible = np.arange(x.shape[1])[None] < 900
        for name, norm, mask in (
            (LAYER, LayerNorm(d_model, backend=backend), None),
            (COUNTING, BatchNorm(d_model, backend=backend), None),
            (MASKED, BatchNorm(d_model, backend=backend), visible),
        ):
            alone, beside = (
                norm(y, context=Context(npf.AttentionMask(m), key=npf.RandomKey(0)))[:, :900]
                for y, m in ((tokens, None), (x, mask))
            )
            by_name[name].append(float(np.linalg.norm(beside - alone) / np.linalg.norm(alone)))
    return by_name


def trained(setting: Setting) -> dict[str, list[float]]:
    """The share of held-out letters that are right, in inference, for each batch size."""
    backend = npf.get_backend("numpy", kernels="numpy", threads=1)
    task = SequenceTask("reverse", seed=0, min_length=4)
    test = collate(task.held_out(setting.held_out), task.tokenizer)
    by_name: dict[str, list[float]] = {}
    for name, norm in ((LAYER, LayerNorm), ("BatchNorm", BatchNorm)):
        for size in setting.batch_sizes:
            make = partial(norm, setting.d_model, backend=backend)
            model = Tagger(len(task.vocabulary), setting.d_model, setting.num_layers, norm=make, backend=backend)
            batches = (task.batch(step + 1, size) for step in range(setting.steps))
            fit(model, ((batch.src, batch.tgt_out) for batch in batches), lr=2e-3)
            by_name.setdefault(name, []).append(100 * accuracy(model(test.src), test.tgt_out))
    return by_name


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the tables, draw the picture."""
    moved, right = moved_by_padding(SHARES, setting.d_model), trained(setting)
    heads = [percent(share, 0) for share in SHARES]
    print_table(["outputs moved by padding of", *heads], [(name, *values) for name, values in moved.items()])
    print()
    sizes = setting.batch_sizes
    print_table(["letters right, %, at batch size", *sizes], [(name, *values) for name, values in right.items()])
    shares = [100 * share for share in SHARES]
    charts = [
        Chart(
            "outputs of the same tokens beside padding", "padding in the batch (%)", "relative change",
            [Curve(name, shares, values, dashed=name == MASKED) for name, values in moved.items()],
        ),
        Chart(
            "reversing words", "batch size (sentences)", "held-out letters right (%)",
            [Curve(name, sizes, values) for name, values in right.items()], log_x=True,
        ),
    ]  # fmt: skip
    notes = [f"Right: d = {setting.d_model}, layers: {setting.num_layers}; {setting.steps:,} steps at each batch size."]
    draw_charts(charts, path, "LayerNorm and BatchNorm, where sentences differ in length", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("norms", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
