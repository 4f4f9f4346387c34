"""How large gradients are: of each part, with and without √d_k, in depth, and by initial values.

A gradient that passes a layer is multiplied by the layer's derivative. Where that factor is below 1 at every layer, it
vanishes towards the input; above 1, it explodes; and a softmax that is sure of one key passes hardly any. Everything
here is computed in a second on small models with fixed random numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN, get_backend
from npformer.models import Encoder, EncoderConfig, Model, Transformer, TransformerConfig
from npformer.training.layer_norms import layer_norms
from npformer.typing import HostArray

VOCABULARY, LENGTH, ROWS = 16, 8, 16
WIDTHS, QUERIES, KEYS = (16, 64, 256, 1024), 1024, 16
DEPTHS = (2, 6, 12)
GAINS = (0.7, 1.0, 1.4)


class Sizes(NamedTuple):
    """What was found; each entry is a table by name."""

    parts: dict[str, float]  # norm of each part's gradient, in a fresh Transformer
    attention: dict[int, list[float]]  # d_k -> largest weight and gradient of a score without √d_k, then with it
    gains: dict[float, float]  # of 12 ReLU layers -> gradient's norm at the first over that at the last
    depth: dict[str, list[float]]  # norm order, layers -> gradient's norm of the first and the last layer's W₂
    initial: dict[str, list[float]]  # initial values -> the first loss, norm of the gradient of embeddings and output


def sizes(seed: int = 0) -> Sizes:
    """All of it."""
    rng = np.random.default_rng(seed)
    depth = {}
    for order in ("post", "pre"):
        for layers in DEPTHS:
            norms = depth_norms(order, layers, seed)
            depth[f"{order}-LN, {layers} layers"] = [norms[0], norms[-1]]
    fresh = transformer("xavier", seed)
    first_loss(fresh, seed)
    return Sizes(
        layer_norms(fresh.arena, None),
        {width: [x for scaled in (False, True) for x in attention_sizes(width, scaled, rng)] for width in WIDTHS},
        {gain: through_relus(gain, 12, rng) for gain in GAINS},
        depth,
        {name: _initial(name, seed) for name in ("xavier", "small", "pytorch")},
    )


def attention_sizes(width: int, scaled: bool, rng: np.random.Generator) -> tuple[float, float]:
    """The mean largest weight, and the root mean square of a score's gradient, of 1,024 queries and 16 keys.

    Entries of queries, keys and the upstream gradient have variance 1, so scores have variance d_k without the scale.
    """
    queries, keys = rng.standard_normal((QUERIES, width)), rng.standard_normal((KEYS, width))
    scores = queries @ keys.T / (math.sqrt(width) if scaled else 1.0)
    weights, cache = PLAIN.softmax.forward(scores)
    dscores = PLAIN.softmax.backward(rng.standard_normal(weights.shape), cache)
    return float(np.mean(np.max(weights, axis=-1))), float(np.sqrt(np.mean(dscores**2)))


def through_relus(gain: float, layers: int, rng: np.random.Generator, width: int = 64) -> float:
    """The gradient's norm at the input of so many layers y = max(0, xW), over that at their output.

    W has deviation gain·√(2/C): with gain 1, each layer keeps the mean square of what passes it, forward and backward.
    """
    x, passed = rng.standard_normal((32, width)), []
    for _ in range(layers):
        weight = gain * math.sqrt(2 / width) * rng.standard_normal((width, width))
        x = np.maximum(x @ weight, 0)
        passed.append((weight, x > 0))
    upstream = gradient = rng.standard_normal(x.shape)
    for weight, is_open in reversed(passed):
        gradient = (gradient * is_open) @ weight.T
    return float(np.linalg.norm(gradient) / np.linalg.norm(upstream))


def depth_norms(order: Any, layers: int, seed: int = 0, width: int = 32) -> list[float]:
    """The norm of the gradient of every layer's last matrix, in a fresh encoder of this depth that reverses."""
    config = EncoderConfig(
        vocab_size=VOCABULARY, head="tokens", num_classes=VOCABULARY, num_layers=layers, norm_order=order,
        d_model=width, num_heads=4, d_ff=2 * width, dropout=0.0,
    )  # fmt: skip
    model = Encoder(config, backend=_backend(), seed=seed)
    tokens = _tokens(seed)
    _backpropagate(model, (tokens,), tokens[:, ::-1])
    return [float(np.linalg.norm(layer.feed_forward.down.weight.grad)) for layer in model.encoder.layers]


def transformer(init: str, seed: int = 0, **changes: Any) -> Transformer:
    """A fresh Transformer with these initial values: xavier, small or pytorch."""
    size: dict[str, Any] = {"d_model": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64}
    size |= {"max_seq_len": LENGTH, "dropout": 0.0, "init": "xavier" if init == "pytorch" else init}
    config = TransformerConfig(VOCABULARY, VOCABULARY, **(size | changes))
    model = Transformer(config, backend=_backend(), seed=seed)
    if init == "pytorch":
        pytorch_default(model, seed)
    return model


def pytorch_default(model: Model, seed: int) -> None:
    """Give a Transformer the initial values that PyTorch's modules have: Transformer, Embedding, and Linear as output.

    nn.Transformer draws matrices Xavier-uniform, with W_q, W_k and W_v as one of shape (3C, C), whose bound is lower;
    biases of attention are 0, those of the feed-forward net U(±1/√fan_in). nn.Embedding is N(0, 1). The output map is
    U(±1/√C), weights and biases.
    """
    rng, parameters = np.random.default_rng(seed), dict(model.named_parameters())
    for name, p in parameters.items():
        *_, part, kind = ["", *name.split(".")]
        fan_in, fan_out = parameters[name.removesuffix(kind) + "weight"].data.shape if kind == "bias" else _fans(p.data)
        if kind == "weight" and "embedding" in part:
            p.data[...] = rng.standard_normal(p.data.shape)
        elif part == "generator" or (kind == "bias" and part in ("up", "down")):
            p.data[...] = rng.uniform(-1, 1, p.data.shape) / math.sqrt(fan_in)
        elif kind == "weight":
            wide = 3 * fan_out if part in ("query", "key", "value") else fan_out
            p.data[...] = rng.uniform(-1, 1, p.data.shape) * math.sqrt(6 / (fan_in + wide))


def first_loss(model: Transformer, seed: int = 0) -> float:
    """The loss of a batch to reverse; its gradient is left in the arena."""
    tokens = _tokens(seed)
    begun = np.concatenate([np.ones_like(tokens[:, :1]), tokens[:, :0:-1]], axis=1)
    return _backpropagate(model, (tokens, begun), tokens[:, ::-1])


def _initial(name: str, seed: int) -> list[float]:
    model = transformer(name, seed)
    loss, norms = first_loss(model, seed), layer_norms(model.arena, None)
    return [loss, math.sqrt(sum(x**2 for part, x in norms.items() if "embedding" in part)), norms["generator"]]


def _fans(array: Any) -> tuple[int, int]:
    return (array.shape[0], array.shape[-1]) if array.ndim else (1, 1)


def _backend() -> Any:
    return get_backend("numpy", dtype="float64", kernels="plain")


def _tokens(seed: int) -> HostArray:
    return np.random.default_rng(seed).integers(3, VOCABULARY, (ROWS, LENGTH))


def _backpropagate(model: Any, inputs: tuple[HostArray, ...], targets: HostArray) -> float:
    logits, cache = model.forward(*inputs)
    loss, kept = PLAIN.cross_entropy.forward(logits, targets, 0, 0.0)
    model.zero_grad()
    model.backward(PLAIN.cross_entropy.backward(1.0, kept), cache)
    return float(loss)
