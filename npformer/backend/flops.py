"""How much an operation has to do at the least: flops of its matrix products, numbers moved to and from memory.

Both follow from the shapes of the forward's inputs alone; no kernel that computes the operation can do
with less, so they bound it from below, whoever wrote it.

    products   (M, K)·(K, N) takes 2·M·K·N flops. Each has two operands that want a gradient, so the
               backward's products take twice the forward's. What a causal mask hides is counted too,
               except in local attention, whose pairs are known to be few: those that padding could leave.
    numbers    forward: every input read once, every output written once. Backward: dy and the inputs
               that the derivative needs read, gradients written; a parameter's gradient is added to
               what is there, hence read and written. What stays inside (attention's weights, the wide
               layer of feed-forward, masks, which can be drawn again) need not move at all.

A token id counts as one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from npformer.functional import AttentionMask
from npformer.typing import Array


class Work(NamedTuple):
    """Of one call, or of several added up."""

    flops: float = 0.0
    numbers: float = 0.0  # moved; times the bytes of one number: bytes

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(self.flops + other.flops, self.numbers + other.numbers)


NOTHING = Work()


def work_of(op: str, y: Any, inputs: tuple[Any, ...]) -> tuple[Work, Work]:
    """(forward's, backward's) work of the operation called op, given forward's output and inputs."""
    return _WORK[op](y, *inputs)


def adam_work(numbers: int) -> Work:
    """One update of so many parameters: p, g, m, v are read, p, m, v are written."""
    return Work(0.0, 7 * numbers)


def _size(*arrays: Array) -> int:
    return sum(math.prod(x.shape) for x in arrays)


def _both(
    inputs: int, output: int, needed: int, gradients: int, added: int = 0, products: int = 0
) -> tuple[Work, Work]:
    """Numbers: forward's inputs and output; the inputs backward needs, the gradients it returns, those it adds."""
    return Work(products, inputs + output), Work(2 * products, output + needed + gradients + 2 * added)


def _linear(y: Array, x: Array, weight: Array, bias: Array) -> tuple[Work, Work]:
    parameters = _size(weight, bias)
    return _both(_size(x) + parameters, _size(y), _size(x, weight), _size(x), parameters, 2 * _size(x) * bias.shape[0])


def _elementwise(y: Array, x: Array, *options: Any) -> tuple[Work, Work]:
    return _both(_size(x), _size(y), _size(x), _size(x))


def _dropout(y: Array, x: Array, draw: Any) -> tuple[Work, Work]:
    return (NOTHING, NOTHING) if draw is None else _both(_size(x), _size(y), 0, _size(x))


def _embedding(y: Array, tokens: Array, table: Array, scale: float = 1.0) -> tuple[Work, Work]:
    rows = min(_size(tokens), table.shape[0])  # that can have a gradient at most
    return _both(_size(tokens) + _size(y), _size(y), _size(tokens), 0, rows * table.shape[1])


def _sinusoidal_positions(y: Array, x: Array, offset: int = 0) -> tuple[Work, Work]:
    return Work(0.0, _size(x) + _size(y)), NOTHING  # dx is dy itself


def _learned_positions(y: Array, x: Array, table: Array, offset: int = 0) -> tuple[Work, Work]:
    rows = x.shape[-2] * x.shape[-1]
    return _both(_size(x) + rows, _size(y), 0, 0, rows)


def _rotary(y: Array, x: Array, *options: Any) -> tuple[Work, Work]:
    return _both(_size(x), _size(y), 0, _size(x))


def _relative_bias(y: Array, table: Array, *options: Any) -> tuple[Work, Work]:
    return _both(_size(table), _size(y), 0, 0, _size(table))


def _layer_norm(y: Array, x: Array, gamma: Array, beta: Array, eps: float) -> tuple[Work, Work]:
    parameters = _size(gamma, beta)
    return _both(_size(x) + parameters, _size(y), _size(x, gamma), _size(x), parameters)


def _batch_norm(y: Array, x: Array, gamma: Array, beta: Array, *options: Any) -> tuple[Work, Work]:
    return _layer_norm(y, x, gamma, beta, 0.0)


def _batch_norm_inference(
    y: Array, x: Array, gamma: Array, beta: Array, mean: Array, variance: Array, eps: float = 1e-5
) -> tuple[Work, Work]:
    parameters = _size(gamma, beta, mean, variance)
    return _both(_size(x) + parameters, _size(y), _size(x, gamma, mean, variance), _size(x), parameters)


def _attention(y: Array, q: Array, k: Array, v: Array, *options: Any) -> tuple[Work, Work]:
    heads = _size(q, k, v)
    return _both(heads, _size(y), heads, heads, products=4 * _size(q) * k.shape[-2])


def _biased_attention(y: Array, q: Array, k: Array, v: Array, bias: Array, *options: Any) -> tuple[Work, Work]:
    given = _size(q, k, v, bias)
    return _both(given, _size(y), given, given, products=4 * _size(q) * k.shape[-2])


def _local_attention(y: Array, q: Array, k: Array, v: Array, mask: AttentionMask, *options: Any) -> tuple[Work, Work]:
    length, heads = q.shape[2], _size(q, k, v)
    ways = 1 if mask.causal else 2  # of looking: back alone, or ahead as well
    pairs = length + ways * sum(length - back for back in range(1, length) if _near(back, mask))
    return _both(heads, _size(y), heads, heads, products=4 * q.shape[0] * q.shape[1] * pairs * q.shape[3])


def _near(back: int, mask: AttentionMask) -> bool:
    return (mask.window is not None and back < mask.window) or (mask.stride is not None and back % mask.stride == 0)


def _linear_attention(y: Array, q: Array, k: Array, v: Array, *options: Any) -> tuple[Work, Work]:
    heads, width = _size(q, k, v), q.shape[-1]
    return _both(heads, _size(y), heads, heads, products=2 * _size(q, k) * (width + 1))  # with the column of ones


def _residual(y: Array, x: Array, f: Array, draw: Any) -> tuple[Work, Work]:
    backward = NOTHING if draw is None else Work(0.0, 2 * _size(f))  # dx is dy itself, and df too without dropout
    return Work(0.0, _size(x, f, y)), backward


def _post_norm(y: Any, x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Any) -> tuple[Work, Work]:
    parameters = _size(gamma, beta)
    gradients = _size(x) if draw is None else _size(x, f)
    return _both(_size(x, f) + parameters, _size(x), _size(x, f, gamma), gradients, parameters)


def _add_norm(y: Any, x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Any) -> tuple[Work, Work]:
    parameters = _size(gamma, beta)
    gradients = _size(x) if draw is None else _size(x, f)
    return _both(_size(x, f) + parameters, _size(*y), _size(x, gamma), gradients, parameters)  # needed: the sum


def _feed_forward(y: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array, *options: Any) -> tuple[Work, Work]:
    parameters = _size(w1, b1, w2, b2)
    products = 4 * _size(x) * b1.shape[0]
    return _both(_size(x) + parameters, _size(y), _size(x, w1, b1, w2), _size(x), parameters, products)


def _cross_entropy(y: Array, logits: Array, targets: Array, *options: Any) -> tuple[Work, Work]:
    return _both(_size(logits, targets), _size(y), _size(logits, targets), _size(logits))


def _gru(y: Array, x: Array, start: Array, *given: Any) -> tuple[Work, Work]:
    weights = given[:4]  # W, b, U, c
    inputs, parameters = _size(x, start), _size(*weights)
    products = 2 * (_size(x) + _size(y)) * 3 * start.shape[1]
    return _both(inputs + parameters, _size(y), inputs + parameters, inputs, parameters, products)


def _conv1d(y: Array, x: Array, weight: Array, bias: Array, *options: Any) -> tuple[Work, Work]:
    parameters, products = _size(weight, bias), 2 * _size(x) * weight.shape[0] * weight.shape[2]
    return _both(_size(x) + parameters, _size(y), _size(x, weight), _size(x), parameters, products)


_WORK: dict[str, Callable[..., tuple[Work, Work]]] = {
    "linear": _linear,
    "relu": _elementwise,
    "gelu": _elementwise,
    "softmax": _elementwise,
    "dropout": _dropout,
    "embedding": _embedding,
    "sinusoidal_positions": _sinusoidal_positions,
    "learned_positions": _learned_positions,
    "rotary": _rotary,
    "relative_bias": _relative_bias,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "batch_norm_inference": _batch_norm_inference,
    "attention": _attention,
    "biased_attention": _biased_attention,
    "local_attention": _local_attention,
    "linear_attention": _linear_attention,
    "residual": _residual,
    "post_norm": _post_norm,
    "add_norm": _add_norm,
    "feed_forward": _feed_forward,
    "cross_entropy": _cross_entropy,
    "gru": _gru,
    "conv1d": _conv1d,
}
