"""Post-LN and pre-LN in depth, each with and without warm-up.

    post-LN   x ← LN(x + f(x))        the gradient of the last layers is large at the start, whatever the depth
    pre-LN    x ← x + f(LN(x))        the gradient is shared among the layers, and falls as 1/√L

The paper finds that with the full learning rate from the first step a deep post-LN net fails to train, that it needs
warm-up, and that pre-LN does not. Left: the loss after the same number of steps on reversed words. Right: the gradient
of each layer's last matrix in the deepest net, before training.

Source: Xiong et al. 2020, arXiv:2002.04745, sections 3.2 and 3.3.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, fit, print_table
from npformer.data import SequenceTask
from npformer.models import Encoder, EncoderConfig
from npformer.optim import Constant, Schedule
from npformer.see.plot.charts import Chart, Curve, draw_charts


class Setting(NamedTuple):
    """Depths, and the training options."""

    depths: tuple[int, ...]
    steps: int
    warmup_steps: int
    rate: float = 3e-3
    d_model: int = 32
    batch_size: int = 32


class WarmUp(NamedTuple):
    """Linear warm-up to peak, then constant: it differs from Constant only at the beginning."""

    peak: float
    steps: int

    def __call__(self, step: int) -> float:
        return self.peak * min(1.0, step / self.steps)


FULL = Setting(depths=(2, 4, 8, 12, 18), steps=600, warmup_steps=150)
SMALL = Setting(depths=(1, 3), steps=20, warmup_steps=10, d_model=16, batch_size=8)
ORDERS = {"post-LN": "post", "pre-LN": "pre"}


def encoder(setting: Setting, vocab_size: int, depth: int, order: str) -> Encoder:
    """A tagger of this depth, without dropout."""
    config = EncoderConfig(
        vocab_size=vocab_size, head="tokens", num_classes=vocab_size, num_layers=depth, norm_order=order,
        d_model=setting.d_model, num_heads=4, d_ff=2 * setting.d_model, dropout=0.0,
    )  # type: ignore[arg-type]  # fmt: skip
    return Encoder(config, backend=npf.get_backend("numpy", kernels="numpy", threads=1))


def trained(setting: Setting) -> dict[str, list[float]]:
    """The loss at the end, averaged over the last tenth of the steps, at each depth."""
    task = SequenceTask("reverse", seed=0, min_length=4)
    batches = [task.batch(step + 1, setting.batch_size) for step in range(setting.steps)]
    pairs = [(batch.src, batch.tgt_out) for batch in batches]
    rates: dict[str, Schedule] = {
        "with warm-up": WarmUp(setting.rate, setting.warmup_steps),
        "without": Constant(setting.rate),
    }
    by_name: dict[str, list[float]] = {}
    for order, word in ORDERS.items():
        for name, rate in rates.items():
            for depth in setting.depths:
                model = encoder(setting, len(task.vocabulary), depth, word)
                losses = fit(model, pairs, lr=rate, clip_norm=None)
                by_name.setdefault(f"{order} {name}", []).append(float(np.mean(losses[-max(1, setting.steps // 10) :])))
    return by_name


def gradients(setting: Setting) -> dict[str, list[float]]:
    """The norm of the gradient of each layer's last matrix, before any training, in the deepest net."""
    task = SequenceTask("reverse", seed=0, min_length=4)
    batch = task.batch(1, 64)
    by_name = {}
    for order, word in ORDERS.items():
        model = encoder(setting, len(task.vocabulary), setting.depths[-1], word)
        fit(model, [(batch.src, batch.tgt_out)], lr=0.0, clip_norm=None)
        layers = model.encoder.layers
        by_name[order] = [float(np.linalg.norm(layer.feed_forward.down.weight.grad)) for layer in layers]
    return by_name


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the tables, draw the picture."""
    losses, sizes = trained(setting), gradients(setting)
    print_table(["loss at the end, layers:", *setting.depths], [(name, *values) for name, values in losses.items()])
    print()
    print_table(
        ["gradient of the last matrix", "first layer", "last layer"], [(n, v[0], v[-1]) for n, v in sizes.items()]
    )
    deepest = setting.depths[-1]
    charts = [
        Chart(
            f"after {setting.steps:,} steps", "layers", "loss (nats per token)",
            [
                Curve(name, setting.depths, values, dashed=name.endswith("without"), colour=place // 2)
                for place, (name, values) in enumerate(losses.items())
            ],
        ),
        Chart(
            f"{deepest} fresh layers", "layer, from the input", "norm of the gradient of W₂",
            [Curve(name, range(1, deepest + 1), values) for name, values in sizes.items()], log_y=True,
        ),
    ]  # fmt: skip
    notes = [
        f"Encoders, d = {setting.d_model}, reversing words; Adam, rate {setting.rate:g}, reached in "
        f"{setting.warmup_steps} steps or at once, no clipping, no dropout."
    ]
    draw_charts(charts, path, "Post-LN and pre-LN in depth", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("norm_order", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
