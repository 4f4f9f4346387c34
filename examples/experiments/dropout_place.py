"""Dropout before the residual sum, as in the paper, or after it: the effect on the residual stream and on learning.

Before the sum, dropout zeroes entries of each sub-layer's contribution, not of the stream. After the sum, the stream
itself loses entries at every sub-layer, and lost entries do not come back: an entry survives n sub-layers with
probability (1 − rate)^n.

Left: the cosine between the stream with and without dropout, in untrained layers. Right: models that learn to reverse
words with dropout; the loss on held-out words, without dropout.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, fit, print_table
from examples.experiments.tagger import Tagger
from npformer.data import SequenceTask
from npformer.data.batches import collate
from npformer.layers import LayerNorm
from npformer.see.plot.charts import Chart, Curve, draw_charts


class Setting(NamedTuple):
    """Depths, and the training options."""

    depths: tuple[int, ...]
    steps: int
    rate: float = 0.1
    d_model: int = 32
    batch_size: int = 32
    deep: int = 12  # layers of the untrained stack


FULL = Setting(depths=(1, 2, 4, 8, 12), steps=1000, d_model=64)
SMALL = Setting(depths=(1, 3), steps=30, d_model=16, batch_size=8, deep=4)
PLACES = {"before the sum": False, "after the sum": True}


def tagger(setting: Setting, vocab_size: int, depth: int, after: bool) -> Tagger:
    """A model of this depth."""
    backend = npf.get_backend("numpy", kernels="numpy", threads=1)
    norm = partial(LayerNorm, setting.d_model, backend=backend)
    return Tagger(vocab_size, setting.d_model, depth, norm=norm, dropout=setting.rate, after=after, backend=backend)


def surviving(setting: Setting) -> dict[str, list[float]]:
    """The cosine between the stream with and without dropout, before the first sub-layer and after each."""
    tokens = np.random.default_rng(0).integers(3, 20, (16, 12))
    by_name = {}
    for name, after in PLACES.items():
        model = tagger(setting, 20, setting.deep, after)
        pairs = zip(model.streams(tokens, key=npf.RandomKey(0)), model.streams(tokens), strict=True)
        by_name[name] = [float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs]
    return by_name


def trained(setting: Setting) -> dict[str, list[float]]:
    """The loss on held-out words, in inference, at each depth."""
    task = SequenceTask("reverse", seed=0, min_length=4)
    test = collate(task.held_out(300), task.tokenizer)
    by_name: dict[str, list[float]] = {name: [] for name in PLACES}
    for depth in setting.depths:
        for name, after in PLACES.items():
            model = tagger(setting, len(task.vocabulary), depth, after)
            batches = (task.batch(step + 1, setting.batch_size) for step in range(setting.steps))
            fit(model, ((batch.src, batch.tgt_out) for batch in batches), lr=1e-3)
            by_name[name].append(float(model.ops.cross_entropy.forward(model(test.src), test.tgt_out, 0, 0.0)[0]))
    return by_name


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the tables, draw the picture."""
    left, losses = surviving(setting), trained(setting)
    marks = [2 * layer for layer in range(0, setting.deep + 1, max(1, setting.deep // 4))]
    print_table(["cosine after sub-layers:", *marks], [(name, *(v[i] for i in marks)) for name, v in left.items()])
    print()
    print_table(["held-out loss, layers:", *setting.depths], [(name, *values) for name, values in losses.items()])
    sub_layers = range(2 * setting.deep + 1)
    charts = [
        Chart(
            "what is left of the stream", "sub-layers passed", "cosine with the stream without dropout",
            [Curve(name, sub_layers, values) for name, values in left.items()],
        ),
        Chart(
            f"after {setting.steps:,} training steps", "layers", "held-out loss (nats per token)",
            [Curve(name, setting.depths, values) for name, values in losses.items()],
        ),
    ]  # fmt: skip
    notes = [f"Pre-LN layers, d = {setting.d_model}, dropout {setting.rate:g}. Left: fresh. Right: reversing words."]
    draw_charts(charts, path, "Dropout before or after the residual sum", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("dropout_place", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
