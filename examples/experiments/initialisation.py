"""Initial values: how many steps copy, reverse and sort take until 99 % of held-out tokens are right.

    xavier   embeddings of deviation 1, the output projection Xavier-uniform: its logits start with variance 2C/(C + V),
             so the first loss is well above ln V
    small    embeddings of deviation ½, less than sinusoidal positions, whose mean square is ½; the output projection of
             deviation 0.02, so the first loss is ln V
    pytorch  what nn.Transformer, nn.Embedding and nn.Linear start with: W_q, W_k and W_v smaller than Xavier's, the
             output projection U(±1/√C), weights and biases, and a table of embeddings of deviation 1

The model multiplies tables of embeddings by √C. The first two deviations are those after that. PyTorch's table is not
divided by √C before, so its embeddings have deviation √C, and outweigh the positions.

Each row is a task and a norm order; all ways see the same batches, and only the initial values differ. A run ends at
99 % of the target's tokens, given the true prefix. Left: steps until then, for each seed. Right: the loss of the first
step, beside ln V.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, print_table
from npformer.data import SequenceTask
from npformer.optim import WarmupCosine
from npformer.see.plot.charts import Chart, Curve, draw_charts

GOAL, EVERY, HELD_OUT = 0.99, 5, 150  # share of tokens, steps between two looks, words
INITS = ("xavier", "small", "pytorch")


class Setting(NamedTuple):
    """Tasks, seeds, norm orders with the peaks of their learning rates, and the sizes of a model."""

    seeds: int
    steps: int
    tasks: tuple[str, ...] = ("copy", "reverse", "sort")
    rates: tuple[tuple[Literal["post", "pre"], float], ...] = (("post", 2e-3), ("pre", 5e-3))
    symbols: int = 13  # with the special tokens, a vocabulary of 16
    d_model: int = 64
    batch_size: int = 96


class Run(NamedTuple):
    """One training run."""

    steps: int  # until GOAL; Setting.steps if it was not reached
    first_loss: float  # of the first batch, before any update


FULL = Setting(seeds=10, steps=800)
SMALL = Setting(seeds=1, steps=2, tasks=("copy",), d_model=16, batch_size=8)


def train(setting: Setting, task: SequenceTask, init: str, order: Any, seed: int) -> Run:
    """Train one model until it has reached the goal."""
    size = len(task.vocabulary)
    config = npf.TransformerConfig(
        src_vocab_size=size, tgt_vocab_size=size, d_model=setting.d_model, d_ff=4 * setting.d_model, num_heads=4,
        num_encoder_layers=2, num_decoder_layers=2, max_seq_len=task.max_length, dropout=0.0, norm_order=order,
        init="small" if init == "small" else "xavier",
    )  # fmt: skip
    model = npf.Transformer(config, backend=npf.get_backend("numpy"), seed=seed)
    if init == "pytorch":
        pytorch_default(model, seed)
    schedule = WarmupCosine(dict(setting.rates)[order], min(60, setting.steps), setting.steps)
    step = npf.TrainStep(model, npf.Adam(model.arena), seed=seed, clip_norm=1.0, schedule=schedule)
    held_out = task.collate(task.held_out(HELD_OUT))
    first = 0.0
    for number in range(1, setting.steps + 1):
        loss = step(*task.batch(number, setting.batch_size))
        first = first or float(loss)
        if number % EVERY == 0 and right(model, *held_out) >= GOAL:
            return Run(number, first)
    return Run(setting.steps, first)


def pytorch_default(model: npf.Transformer, seed: int) -> None:
    """Give a Transformer the initial values that PyTorch's modules have: Transformer, Embedding, and Linear as output.

    nn.Transformer draws matrices Xavier-uniform, with W_q, W_k and W_v as one of shape (3C, C), whose bound is lower;
    biases of attention are 0, those of the feed-forward net U(±1/√fan_in). nn.Embedding is N(0, 1), which the model
    multiplies by √C. The output map is U(±1/√C), weights and biases.
    """
    rng, parameters = np.random.default_rng(seed), dict(model.named_parameters())
    for name, p in parameters.items():
        *_, part, kind = name.split(".")
        if kind not in ("weight", "bias"):
            continue  # gains and shifts of norms: 1 and 0
        fan_in, fan_out = parameters[name.removesuffix(kind) + "weight"].data.shape
        if "embedding" in part:
            p.data[...] = rng.standard_normal(p.data.shape)
        elif part == "generator" or (kind == "bias" and part in ("up", "down")):
            p.data[...] = rng.uniform(-1, 1, p.data.shape) / math.sqrt(fan_in)
        elif kind == "weight":
            wide = 3 * fan_out if part in ("query", "key", "value") else fan_out
            p.data[...] = rng.uniform(-1, 1, p.data.shape) * math.sqrt(6 / (fan_in + wide))


def right(model: npf.Transformer, src: Any, tgt_in: Any, tgt_out: Any) -> float:
    """The share of right tokens, given the true prefix; padding does not count."""
    counted = np.asarray(tgt_out) != 0
    predicted = np.argmax(model.backend.host(model(src, tgt_in)), axis=-1)
    return float(np.mean(predicted[counted] == np.asarray(tgt_out)[counted]))


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    rows, curves, losses = [], [], {init: [] for init in INITS}  # type: ignore[var-annotated]
    vocabulary = 0
    for name in setting.tasks:
        for order, _ in setting.rates:
            for place, init in enumerate(INITS):
                tasks = [SequenceTask(name, seed=seed, symbols=setting.symbols) for seed in range(setting.seeds)]
                runs = [train(setting, task, init, order, seed) for seed, task in enumerate(tasks)]
                vocabulary, steps = len(tasks[0].vocabulary), sorted(run.steps for run in runs)
                losses[init] += [run.first_loss for run in runs]
                first = float(np.mean([run.first_loss for run in runs]))
                rows.append((f"{name}, {order}-LN, {init}", first, median(steps), steps[0], steps[-1]))
                curves.append(Curve(rows[-1][0], range(1, len(steps) + 1), steps, dashed=order == "pre", colour=place))
    print_table([f"steps to {GOAL:.0%} of tokens", "first loss", "median", "fewest", "most"], rows)
    print(f"\nln V = {math.log(vocabulary):.2f}; {setting.seeds} seeds; {setting.steps} steps at most")
    charts = [
        Chart(f"until {GOAL:.0%} of tokens are right", "seeds, sorted", "steps", curves),
        Chart("the first step", "run", "loss (nats per token)", [
            *(Curve(init, range(1, len(values) + 1), sorted(values), colour=place)
              for place, (init, values) in enumerate(losses.items())),
            Curve("ln V", [1, len(losses["small"])], [math.log(vocabulary)] * 2, dashed=True, colour=len(INITS)),
        ]),
    ]  # fmt: skip
    about = f"d = {setting.d_model}, 2 + 2 layers, batches of {setting.batch_size}; Adam, warm-up and cosine decay."
    draw_charts(charts, path, "Initial values", [about])


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("initialisation", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
