"""Every forward a second time, as short as its formula, in plain NumPy; it shares no line with npformer's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npformer.typing import HostArray


def softmax(x: HostArray, visible: HostArray | bool = True) -> Any:
    powers = np.where(visible, np.exp(x - x.max(axis=-1, keepdims=True)), 0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def layer_norm(x: HostArray, gamma: HostArray, beta: HostArray, eps: float = 1e-5) -> Any:
    return gamma * (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) + beta


def _mean_loss(logits: HostArray, targets: HostArray, ignored: int, smoothing: float) -> Any:
    classes = logits.shape[-1]
    wanted = (1 - smoothing) * np.eye(classes)[targets] + smoothing / classes
    losses = (wanted * (np.logaddexp.reduce(logits, axis=-1, keepdims=True) - logits)).sum(axis=-1)
    return losses[targets != ignored].mean()


#: Operation -> its outputs.
FORWARD: dict[str, Callable[..., Any]] = {
    "linear": lambda x, weight, bias: x @ weight + bias,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "softmax": softmax,
    "embedding": lambda tokens, table, scale: scale * table[tokens],
    "learned_positions": lambda x, table, offset: x + table[offset : offset + x.shape[1]],
    "layer_norm": layer_norm,
    "residual": lambda x, f: x + f,
    "post_norm": lambda x, f, *affine: layer_norm(x + f, *affine),
    "add_norm": lambda x, f, *affine: (x + f, layer_norm(x + f, *affine)),
    "feed_forward": lambda x, w1, b1, w2, b2: np.maximum(x @ w1 + b1, 0) @ w2 + b2,
    "cross_entropy": _mean_loss,
    "attention": lambda q, k, v, *visible: softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), *visible) @ v,
    "heads": lambda x, num_heads: np.stack(np.split(x, num_heads, axis=-1), axis=1),
}
