"""Recurrent against parallel models: time per training step, by length, and the loss after equal numbers of steps.

A GRU computes its tokens one after the other, in S + T small products. A Transformer or a convolution computes all
tokens at once, layer after layer, for any length. Whether that pays depends on the size of the products. The table
shows the chain of layers, or of tokens, in which each waits for the one before.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, fit, print_table
from examples.experiments.rivals import ConvTranslator, GruTranslator
from npformer.data import SequenceTask
from npformer.see.plot.charts import Chart, Curve, draw_charts


class Setting(NamedTuple):
    """Lengths to time, and the training on reversed words."""

    lengths: tuple[int, ...]
    steps: int
    d_model: int = 64
    layers: int = 2  # in the encoder, and in the decoder
    batch_size: int = 32
    rounds: int = 5


class Found(NamedTuple):
    """The measurements, by model name."""

    milliseconds: dict[str, list[float]]  # for each length
    losses: dict[str, list[float]]  # of each step


FULL = Setting(lengths=(16, 32, 64, 128, 256), steps=600)
SMALL = Setting(lengths=(16, 64), steps=30, d_model=32, batch_size=8, rounds=2)


def models(setting: Setting, vocab_size: int) -> dict[str, Any]:
    """The three translators, of equal width."""
    backend = npf.get_backend("numpy", kernels="numpy", threads=1)
    config = npf.TransformerConfig(
        src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, d_model=setting.d_model, num_heads=4,
        d_ff=4 * setting.d_model, num_encoder_layers=setting.layers, num_decoder_layers=setting.layers, dropout=0.0,
    )  # fmt: skip
    return {
        "Transformer": npf.Transformer(config, backend=backend),
        "GRU": GruTranslator(vocab_size, setting.d_model, backend=backend),
        "convolution": ConvTranslator(vocab_size, setting.d_model, 2 * setting.layers, backend=backend),
    }


def chain(setting: Setting, length: int) -> dict[str, int]:
    """The length of the sequential chain of layers, or of recurrent steps, in a forward pass."""
    return {"Transformer": 2 * setting.layers, "GRU": 2 * length, "convolution": 4 * setting.layers}


def measure(setting: Setting) -> Found:
    """Time all models in turns at every length, then train new ones on reversed words."""
    rng = np.random.default_rng(0)
    timed = models(setting, 32)
    milliseconds: dict[str, list[float]] = {name: [] for name in timed}
    for length in setting.lengths:
        batch = tuple(rng.integers(3, 32, (setting.batch_size, length)) for _ in range(3))
        best = dict.fromkeys(timed, float("inf"))
        for _ in range(setting.rounds + 1):
            for name, model in timed.items():
                start = time.perf_counter()
                fit(model, [batch], lr=1e-4)
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
        for name, value in best.items():
            milliseconds[name].append(value)
    task = SequenceTask("reverse", seed=0)
    batches = [task.batch(step + 1, setting.batch_size) for step in range(setting.steps)]
    fresh = models(setting, len(task.vocabulary))
    return Found(milliseconds, {name: fit(model, batches, lr=1e-3) for name, model in fresh.items()})


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    measured, last = measure(setting), setting.lengths[-1]
    print_table(
        ["", *(f"ms at T={length}" for length in setting.lengths), f"chain at T={last}", "loss at the end"],
        [
            (name, *times, chain(setting, last)[name], float(np.mean(measured.losses[name][-20:])))
            for name, times in measured.milliseconds.items()
        ],
    )
    times = [Curve(name, setting.lengths, values) for name, values in measured.milliseconds.items()]
    losses = [Curve(name, *blocks(values)) for name, values in measured.losses.items()]
    charts = [
        Chart("time for each step", "length of source and target (tokens)", "milliseconds", times, True, True),
        Chart("reversing words of 1 to 12 letters", "training step", "loss (nats per token)", losses),
    ]
    notes = [f"d = {setting.d_model}, batch of {setting.batch_size}, one thread. Right: means of neighbouring steps."]
    draw_charts(charts, path, "Recurrent against parallel: a training step, and what it teaches", notes)


def blocks(values: list[float], count: int = 30) -> tuple[list[float], list[float]]:
    """The middle step and the mean value of at most count runs of neighbouring steps."""
    parts = np.array_split(np.arange(len(values)), min(count, len(values)))
    return [float(part.mean()) + 1 for part in parts], [float(np.mean([values[i] for i in part])) for part in parts]


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("step_time", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
