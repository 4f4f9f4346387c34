"""How large gradients are: with and without √d_k, through many layers, in depth, and by initial values.

    without √d_k     scores have deviation √d_k: more and more queries learn nothing, and the others too much
    a stack          each layer multiplies the gradient by its gain, so 12 layers by gain¹²
    depth            what a first step changes: about as L with post-LN, more slowly with pre-LN; and what comes true
    initial values   the first loss beside ln V, and the gradient of each part

All models are fresh, so nothing is trained.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1; Glorot & Bengio 2010; Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from examples.experiments.common import command, print_table
from examples.experiments.initialisation import INITS, pytorch_default
from npformer.backend import PLAIN
from npformer.models import Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.see.plot.charts import Chart, Curve, draw_charts
from npformer.see.record.models import plain_backend
from npformer.training.layer_norms import layer_norms
from npformer.typing import HostArray

VOCABULARY, LENGTH, ROWS = 16, 8, 16
QUERIES, KEYS = 2048, 16
NOTHING = 1e-3  # a query all of whose scores have gradients below this learns nothing
RATE = 1e-3
LOSS = "first loss"
#: Why deep models are warmed up: the start page has this text, others lead to it.
OF_DEPTH = (
    "Adam's first step moves every number by the rate, against its gradient: to first order the loss falls by "
    "rate·Σ|g|. Over L fresh layers the sum grows about as L with post-LN, which brings each back to size 1, and more "
    "slowly, in the end as √L, with pre-LN, where each is a smaller part of a growing sum. So one rate is a longer "
    "step in a deeper model, and less of what it predicts comes true, with post-LN first. A warm-up begins with a rate "
    "that is short enough."
)
ORDERS = {"post-LN": "post", "pre-LN": "pre"}


class Setting(NamedTuple):
    """Seeds, and what is varied."""

    seeds: int
    widths: tuple[int, ...] = (16, 64, 256, 1024)
    layers: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12)
    gains: tuple[float, ...] = (0.7, 0.9, 1.0, 1.1, 1.4)
    depths: tuple[int, ...] = (1, 2, 4, 8, 12, 18)


FULL = Setting(seeds=5)
SMALL = Setting(seeds=1, widths=(8, 64), layers=(1, 4), depths=(1, 3))


class QuerySizes(NamedTuple):
    """Of many queries: the root mean square of a query's gradient, and the share of queries that learn nothing."""

    median: float
    mean: float
    nothing: float


def attention_sizes(width: int, scaled: bool, rng: np.random.Generator) -> QuerySizes:
    """Of 2,048 queries and 16 keys; all entries, those of the weights' gradient too, have variance 1."""
    queries, keys = rng.standard_normal((QUERIES, width)), rng.standard_normal((KEYS, width))
    scale = 1 / math.sqrt(width) if scaled else 1.0
    weights, cache = PLAIN.softmax.forward(queries @ keys.T * scale)
    dscores = PLAIN.softmax.backward(rng.standard_normal(weights.shape), cache)
    size = np.sqrt(np.mean((dscores @ keys * scale) ** 2, axis=-1))
    nothing = np.mean(np.max(np.abs(dscores), axis=-1) < NOTHING)
    return QuerySizes(float(np.median(size)), float(np.mean(size)), float(nothing))


def through_relus(gain: float, layers: int, rng: np.random.Generator) -> float:
    """The gradient's norm at the input of so many layers y = max(0, xW), over that at their output.

    W has deviation gain·√(2/C): with gain 1, each layer keeps the mean square of what passes it, forward and backward.
    """
    width = 64
    x, passed = rng.standard_normal((32, width)), []
    for _ in range(layers):
        weight = gain * math.sqrt(2 / width) * rng.standard_normal((width, width))
        x = np.maximum(x @ weight, 0)
        passed.append((weight, x > 0))
    upstream = gradient = rng.standard_normal(x.shape)
    for weight, is_open in reversed(passed):
        gradient = (gradient * is_open) @ weight.T
    return float(np.linalg.norm(gradient) / np.linalg.norm(upstream))


def first_step(order: Any, layers: int, seed: int = 0, rate: float = RATE) -> tuple[float, float]:
    """Σ|g| over the layers of a fresh encoder, and the share of rate·Σ|g| by which a step lowers the loss.

    The step moves every number by the rate, against its gradient. Σ|g| of the share is over all numbers.
    """
    size: Any = {"d_model": 64, "num_heads": 4, "d_ff": 128, "dropout": 0.0, "num_layers": layers, "norm_order": order}
    config = EncoderConfig(VOCABULARY, head="tokens", num_classes=VOCABULARY, **size)
    model, tokens = Encoder(config, backend=plain_backend(), seed=seed), _tokens(seed)
    loss, arena = _backpropagate(model, (tokens,), tokens[:, ::-1]), model.arena
    grads = np.array(arena.grads)
    of_layers = sum(float(np.abs(p.grad).sum()) for name, p in model.named_parameters() if ".layers." in name)
    arena.values[...] -= rate * np.sign(grads)
    fell = loss - _backpropagate(model, (tokens,), tokens[:, ::-1])
    return of_layers, fell / (rate * float(np.abs(grads).sum()))


def transformer(seed: int = 0, **options: Any) -> Transformer:
    """A fresh one of width 32, with 2 + 2 layers."""
    size = {"d_model": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, "dropout": 0.0}
    config: Any = TransformerConfig(VOCABULARY, VOCABULARY, **(size | {"max_seq_len": LENGTH} | options))
    return Transformer(config, backend=plain_backend(), seed=seed)


def parts_of(model: Transformer, seed: int = 0) -> dict[str, float]:
    """LOSS, of a batch to reverse, and the norm of the gradient of each part."""
    tokens = _tokens(seed)
    begun = np.concatenate([np.ones_like(tokens[:, :1]), tokens[:, :0:-1]], axis=1)
    return {LOSS: _backpropagate(model, (tokens, begun), tokens[:, ::-1]), **layer_norms(model.arena, None)}


def _tokens(seed: int) -> HostArray:
    return np.random.default_rng(seed).integers(3, VOCABULARY, (ROWS, LENGTH))


def _backpropagate(model: Any, inputs: tuple[HostArray, ...], targets: HostArray) -> float:
    logits, cache = model.forward(*inputs)
    loss, kept = PLAIN.cross_entropy.forward(logits, targets, 0, 0.0)
    model.zero_grad()
    model.backward(PLAIN.cross_entropy.backward(1.0, kept), cache)
    return float(loss)


def attention(setting: Setting) -> dict[str, list[QuerySizes]]:
    """The gradients of queries at each width, with the scale and without."""
    seeds = range(setting.seeds)
    return {
        name: [
            QuerySizes(*_means([attention_sizes(n, scaled, np.random.default_rng(i)) for i in seeds]))
            for n in setting.widths
        ]
        for name, scaled in (("without √d_k", False), ("with", True))
    }


def stack(setting: Setting) -> dict[float, list[float]]:
    """What arrives of a gradient, after each number of layers, for each gain."""
    seeds = range(setting.seeds)
    return {
        gain: [mean(through_relus(gain, n, np.random.default_rng(seed)) for seed in seeds) for n in setting.layers]
        for gain in setting.gains
    }


def _means(found: list[Any]) -> list[float]:
    """Of each number over the seeds."""
    return [float(x) for x in np.mean(found, axis=0)]


def depth(setting: Setting) -> dict[str, list[list[float]]]:
    """Σ|g| over the layers at each depth, and the share of what it predicts that a first step brings."""
    seeds = range(setting.seeds)
    return {
        name: [_means([first_step(order, layers, i) for i in seeds]) for layers in setting.depths]
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
    shown = [("median dq", 0, setting.widths, by_scale), ("mean dq", 1, setting.widths, by_scale),
             ("queries that learn nothing", 2, setting.widths, by_scale), ("Σ|g|", 0, setting.depths, by_depth),
             (f"share of {RATE:g}·Σ|g| that a step brings", 1, setting.depths, by_depth)]  # fmt: skip
    for what, place, along, found in shown:
        head = f"{what}, {'d_k' if found is by_scale else 'layers'}:"
        print_table([head, *along], [(name, *(each[place] for each in row)) for name, row in found.items()])
        print()
    print_table(["of a gradient arrives, layers:", *setting.layers], [(f"gain {g:g}", *v) for g, v in through.items()])
    print()
    parts = (LOSS, "src_embedding", "encoder.layers.0.feed_forward", "decoder.layers.1.feed_forward", "generator")
    print_table(["initial values", *parts], [(i, *(found[part] for part in parts)) for i, found in by_init.items()])
    charts = [
        Chart("the gradient of a query", "d_k", "dq, root mean square", [
            Curve(f"{kind} {name}", setting.widths, [each[place] for each in found], dots=True)
            for name, found in by_scale.items() for place, kind in enumerate(("median", "mean"))
        ], log_x=True, log_y=True),
        Chart("queries that learn nothing", "d_k", "share", [
            Curve(name, setting.widths, [each.nothing for each in found], dots=True) for name, found in by_scale.items()
        ], log_x=True),
        Chart("a gradient through ReLU layers", "layers", "share that arrives", [
            Curve(f"gain {gain:g}", setting.layers, values, dots=True) for gain, values in through.items()
        ], log_y=True),
        *(Chart("fresh encoders", "layers", what, [
            Curve(name, setting.depths, [each[place] for each in found], dots=True) for name, found in by_depth.items()
        ], log_x=True, log_y=not place) for place, what in enumerate(("Σ|g|", f"share of {RATE:g}·Σ|g| brought"))),
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
