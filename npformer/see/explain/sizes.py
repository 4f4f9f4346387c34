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
WIDTHS, QUERIES, KEYS = (16, 64, 256, 1024), 1024, 16
LAYERS, DEPTHS, GAINS = 12, (2, 6, 12), (0.7, 1.0, 1.4)
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
    "q·k is a sum of d_k products, so its deviation is √d_k. Without the scale one key takes all: for most queries the "
    "weights hardly depend on the scores any more, and the gradient goes; the few that are undecided between two keys "
    "get all of it. The gradient is a median."
)
OF_GAIN = "Each layer multiplies the gradient by the gain: below 1 it vanishes, at 1 it is kept, above 1 it explodes."
OF_DEPTH = (
    "With post-LN the last layer's gradient is as large at every depth, so the first updates move all layers at once: "
    "it needs a warm-up. With pre-LN the residual sum grows with every layer, the last norm divides by it, and the "
    "gradient falls about as 1/√L."
)


class GradientSizes(NamedTuple):
    """What was found: tables by name."""

    parts: dict[str, list[float]]  # LOSS and each part's gradient norm in a fresh Transformer, for each of INITS
    attention: dict[int, list[float]]  # d_k -> largest weight and gradient of a score without √d_k, then with it
    gains: dict[float, list[float]]  # of ReLU layers -> the share of a gradient's norm that arrives
    depth: dict[int, list[float]]  # layers -> gradient's norm of the last layer's W₂, for each of ORDERS


def sizes() -> GradientSizes:
    """All of it."""
    rng = np.random.default_rng(0)
    fresh = [parts_of(transformer(init=init)) for init in INITS]
    return GradientSizes(
        {part: [found[part] for found in fresh] for part in fresh[0]},
        {width: [x for scaled in (False, True) for x in attention_sizes(width, scaled, rng)] for width in WIDTHS},
        {gain: [through_relus(gain, LAYERS, rng)] for gain in GAINS},
        {layers: [depth_norms(order, layers)[-1] for order in ORDERS] for layers in DEPTHS},
    )


def attention_sizes(width: int, scaled: bool, rng: np.random.Generator) -> tuple[float, float]:
    """The mean largest weight, and the median size of a score's gradient, of 1,024 queries and 16 keys.

    Entries of queries, keys and the upstream gradient have variance 1, so scores have variance d_k without the scale.
    The median tells of most queries; a mean would tell of the few that are undecided between two keys.
    """
    queries, keys = rng.standard_normal((QUERIES, width)), rng.standard_normal((KEYS, width))
    weights, cache = PLAIN.softmax.forward(queries @ keys.T / (math.sqrt(width) if scaled else 1.0))
    dscores = PLAIN.softmax.backward(rng.standard_normal(weights.shape), cache)
    return float(np.mean(np.max(weights, axis=-1))), float(np.median(np.abs(dscores)))


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


def depth_norms(order: Any, layers: int, seed: int = 0) -> list[float]:
    """The norm of the gradient of every layer's last matrix, in a fresh encoder of this depth that reverses."""
    size: Any = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "num_layers": layers, "norm_order": order}
    config = EncoderConfig(VOCABULARY, head="tokens", num_classes=VOCABULARY, **size)
    model, tokens = Encoder(config, backend=plain_backend(), seed=seed), _tokens(seed)
    _backpropagate(model, (tokens,), tokens[:, ::-1])
    return [float(np.linalg.norm(layer.feed_forward.down.weight.grad)) for layer in model.encoder.layers]


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
        ("attention with and without √d_k, 16 random keys: the largest weight, and a score's gradient",
         ("d_k", "weight without", "score without", "weight with", "score with"), found.attention, OF_SCALE),
        (f"a gradient through {LAYERS} layers y = max(0, xW), W of deviation gain·√(2/C)",
         ("gain", "arrives"), found.gains, OF_GAIN),
        ("depth: the norm of the last W₂'s gradient in a fresh encoder",
         ("layers", *(f"{order}-LN" for order in ORDERS)), found.depth, OF_DEPTH),
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
