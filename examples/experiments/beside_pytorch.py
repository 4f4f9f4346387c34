"""A base-sized run beside PyTorch: from equal weights, on equal batches, step by step.

The settings are those of a study text on the Transformer: vocabularies of 5,000, d_model 512, 8 heads, 6 + 6 layers,
d_ff 2048, sequences of 100 random tokens, batches of 64, Adam with rate 1e-4, β = (0.9, 0.98), ε = 1e-9. Dropout is 0
here, since the two libraries draw different random numbers. PyTorch's side uses torch.nn.Transformer.

In float32 the two round differently, and Adam amplifies the difference; in float64 (--small) they agree to rounding.
Needs PyTorch: pip install torch.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import command, print_table
from npformer.see.plot.charts import Chart, Curve, draw_charts

Array = Any
ADAM: dict[str, Any] = {"lr": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9}


class Setting(NamedTuple):
    """The sizes of the run."""

    vocab_size: int = 5000
    d_model: int = 512
    num_heads: int = 8
    num_layers: int = 6
    d_ff: int = 2048
    length: int = 100
    batch_size: int = 64
    steps: int = 5
    dtype: str = "float32"

    def config(self) -> npf.TransformerConfig:
        """Without dropout."""
        return npf.TransformerConfig(
            src_vocab_size=self.vocab_size, tgt_vocab_size=self.vocab_size, d_model=self.d_model,
            num_heads=self.num_heads, num_encoder_layers=self.num_layers, num_decoder_layers=self.num_layers,
            d_ff=self.d_ff, max_seq_len=self.length, dropout=0.0,
        )  # fmt: skip


class Found(NamedTuple):
    """Losses in nats per token and seconds, one for each step, by library."""

    losses: dict[str, list[float]]
    seconds: dict[str, list[float]]


FULL = Setting()
SMALL = Setting(30, 16, 4, 2, 32, length=8, batch_size=4, steps=4, dtype="float64")


def batches(setting: Setting) -> Iterator[tuple[Array, Array, Array]]:
    """src, tgt_in, tgt_out, random tokens; a target's last token is never an input, its first never predicted."""
    rng = np.random.default_rng(0)
    shape = (setting.batch_size, setting.length)
    for _ in range(setting.steps):
        src, tgt = rng.integers(1, setting.vocab_size, shape), rng.integers(1, setting.vocab_size, shape)
        yield src, tgt[:, :-1], tgt[:, 1:]


def measure(setting: Setting) -> Found:
    """Train both models, one step of each in turn."""
    config = setting.config()
    model = npf.Transformer(config, backend=npf.get_backend("numpy", setting.dtype), seed=0)
    sides = {
        "npformer": npf.TrainStep(model, npf.Adam(model.arena, **ADAM)),
        "PyTorch": TorchStep(npf.interop.torch.to_state_dict(model), config, setting.dtype),
    }
    curves = Found({name: [] for name in sides}, {name: [] for name in sides})
    for batch in batches(setting):
        for name, step in sides.items():
            start = time.perf_counter()
            curves.losses[name].append(float(step(*batch)))
            curves.seconds[name].append(time.perf_counter() - start)
    return curves


class TorchStep:
    """One training step of the same Transformer in PyTorch, from the weights of a state dict."""

    def __init__(self, state: dict[str, Array], config: npf.TransformerConfig, dtype: str) -> None:
        import torch

        width, kind = config.d_model, {"dtype": getattr(torch, dtype)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning that an inference optimisation is off
            core = torch.nn.Transformer(
                width, config.num_heads, config.num_encoder_layers, config.num_decoder_layers, config.d_ff,
                dropout=0.0, batch_first=True, **kind,
            )  # fmt: skip
        core.encoder.norm = core.decoder.norm = None  # the paper has no norm there
        self.net = torch.nn.ModuleDict(
            {
                "encoder": core.encoder,
                "decoder": core.decoder,
                "src_embed": torch.nn.Embedding(config.src_vocab_size, width, **kind),
                "tgt_embed": torch.nn.Embedding(config.tgt_vocab_size, width, **kind),
                "generator": torch.nn.Linear(width, config.tgt_vocab_size, **kind),
            }
        )
        self.net.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})
        self.torch, self.scale = torch, math.sqrt(width)
        self.positions = torch.tensor(sinusoids(config.max_seq_len, width), **kind)
        self.optimizer = torch.optim.Adam(self.net.parameters(), **ADAM)

    def __call__(self, src: Array, tgt_in: Array, tgt_out: Array) -> Any:
        """Train on src (B, S), tgt_in and tgt_out (B, T); returns the loss before the update."""
        torch, net = self.torch, self.net
        src, tgt_in, tgt_out = (torch.tensor(np.ascontiguousarray(ids)) for ids in (src, tgt_in, tgt_out))
        length = tgt_in.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)  # True = hidden
        memory = net["encoder"](self._embed("src_embed", src))
        h = net["decoder"](self._embed("tgt_embed", tgt_in), memory, tgt_mask=future)
        loss = torch.nn.functional.cross_entropy(net["generator"](h).flatten(0, 1), tgt_out.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _embed(self, name: str, tokens: Any) -> Any:
        return self.net[name](tokens) * self.scale + self.positions[: tokens.shape[1]]


def sinusoids(length: int, width: int) -> Array:
    """The paper's table (T, C): sines in even columns, cosines in odd ones."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    measured = measure(setting)
    ours, theirs = (np.array(measured.losses[name]) for name in ("npformer", "PyTorch"))
    apart = np.abs(ours - theirs) / theirs
    steps = range(1, setting.steps + 1)
    print_table(
        ["step", "npformer", "PyTorch", "relative difference", "s, npformer", "s, PyTorch"],
        [
            (
                str(step),
                f"{a:.6f}",
                f"{b:.6f}",
                f"{d:.1e}",
                *(measured.seconds[name][step - 1] for name in measured.seconds),
            )
            for step, a, b, d in zip(steps, ours, theirs, apart, strict=True)
        ],
    )
    charts = [
        Chart(
            "training loss", "step", "nats per token",
            [Curve(name, steps, values, dashed=name == "PyTorch") for name, values in measured.losses.items()],
        ),
        Chart(
            "how far apart", "step", "relative difference of the losses",
            [Curve("difference", steps, [float(d) or math.nan for d in apart], colour=2)], log_y=True,
        ),
    ]  # fmt: skip
    notes = [
        f"Equal weights and batches, {setting.dtype}: V = {setting.vocab_size:,}, d = {setting.d_model}, "
        f"{setting.num_layers} + {setting.num_layers} layers, {setting.batch_size} sequences of "
        f"{setting.length} tokens."
    ]
    draw_charts(charts, path, "The same run beside PyTorch", notes)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("beside_pytorch", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
