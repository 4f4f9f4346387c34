"""How large gradients are: of each part, with and without √d_k, through many layers, and in depth.

A gradient that passes a layer is multiplied by the layer's derivative. Where that factor is below 1 at every layer, it
vanishes towards the input; above 1, it explodes; and a softmax that is sure of one key passes hardly any. Everything
here is computed in a second on small fresh models with fixed random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN
from npformer.io.terminal import fill
from npformer.models import Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.see.record.models import plain_backend
from npformer.training.layer_norms import layer_norms
from npformer.typing import HostArray

VOCABULARY, LENGTH, ROWS = 16, 8, 16
WIDTHS, QUERIES, KEYS = (16, 64, 256, 1024), 2048, 16
NOTHING = 1e-3  # a query all of whose scores have gradients below this learns nothing
LAYERS, DEPTHS, GAINS = 12, (2, 6, 18), (0.7, 1.0, 1.4)
RATE = 1e-3
INITS, ORDERS = ("xavier", "small"), ("post", "pre")
LOSS = "first loss"


#: Also beside the plot of a report.
READING = (
    "How to read it: parts of one kind stand close together, within a factor of ten or so, and fall slowly as the loss "
    "does. A layer near the input that lies far below the others hardly learns: its gradient vanishes. One that rises "
    "from evaluation to evaluation is about to explode: look at the learning rate and the warm-up. What counts for "
    "Adam is not the size but how it changes from step to step, since each number is divided by the size of its own "
    "gradients."
)
OF_SCALE = (
    "q·k is a sum of d_k products, so its deviation is √d_k. Without the scale softmax gives one key nearly all the "
    "weight. A query that is sure of its key learns nothing: all its scores have gradients below 0.001. The others get "
    "too much: the mean dq is larger than with the scale, at every width."
)
OF_GAIN = "Each layer multiplies the gradient by the gain: below 1 it vanishes, at 1 it is kept, above 1 it explodes."
#: Why deep models are warmed up: the start page has this text, others lead to it.
OF_DEPTH = (
    "Adam's first step moves every number by the rate, against its gradient: to first order the loss falls by "
    "rate·Σ|g|. Over L fresh layers the sum grows about as L with post-LN, which brings each back to size 1, and about "
    "as √L with pre-LN, where each is a smaller part of a growing sum. So one rate is a longer step in a deeper model, "
    "and less of what it predicts comes true, with post-LN first. A warm-up begins with a rate that is short enough."
)


class QuerySizes(NamedTuple):
    """Of many queries: the root mean square of a query's gradient, and the share of queries that learn nothing."""

    median: float
    mean: float
    nothing: float


class GradientSizes(NamedTuple):
    """What was found: tables by name."""

    parts: dict[str, list[float]]  # LOSS and each part's gradient norm in a fresh Transformer, for each of INITS
    attention: dict[int, list[float]]  # d_k -> QuerySizes without √d_k, then with it
    gains: dict[float, list[float]]  # of ReLU layers -> the share of a gradient's norm that arrives
    depth: dict[int, list[float]]  # layers -> first_step with each of ORDERS


def sizes() -> GradientSizes:
    """All of it."""
    rng = np.random.default_rng(0)
    fresh = [parts_of(transformer(init=init)) for init in INITS]
    return GradientSizes(
        {part: [found[part] for found in fresh] for part in fresh[0]},
        {width: [x for scaled in (False, True) for x in attention_sizes(width, scaled, rng)] for width in WIDTHS},
        {gain: [through_relus(gain, LAYERS, rng)] for gain in GAINS},
        {layers: [x for order in ORDERS for x in first_step(order, layers)] for layers in DEPTHS},
    )


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


def sizes_text(found: GradientSizes, width: int) -> str:
    """The tables, and how to read each."""
    first_loss = f"{math.log(VOCABULARY):.2f}"
    parts = (
        (f"a fresh Transformer, 2 + 2 layers: the first loss (ln V = {first_loss}), norms of gradients",
         ("init", *INITS), found.parts, READING),
        (f"attention without √d_k and with it, {KEYS} random keys: dq of a query (median, mean), and the share of "
         "queries that learn nothing",
         ("d_k", "without", "mean", "nothing", "with", "mean", "nothing"), found.attention, OF_SCALE),
        (f"a gradient through {LAYERS} layers y = max(0, xW), W of deviation gain·√(2/C)",
         ("gain", "arrives"), found.gains, OF_GAIN),
        (f"depth: Σ|g| over the layers of a fresh encoder, and the share of rate·Σ|g| that a step at {RATE:g} brings",
         ("layers", *(x for order in ORDERS for x in (f"{order}-LN", "brings"))), found.depth, OF_DEPTH),
    )  # fmt: skip
    return "\n\n".join(
        f"{fill(title, width)}\n{_table(head, rows)}\n{fill(text, width)}" for title, head, rows, text in parts
    )


def _table(head: Sequence[str], rows: Mapping[Any, Sequence[float]]) -> str:
    first = max(map(len, map(str, (head[0], *rows))))
    lines = [head, *((name, *(f"{value:.3g}" for value in values)) for name, values in rows.items())]
    return "\n".join(
        f"    {name!s:{first}}" + "".join(f"  {x:>{max(8, len(h))}}" for h, x in zip(head[1:], cells, strict=True))
        for name, *cells in lines
    )
