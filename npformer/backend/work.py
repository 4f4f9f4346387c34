"""How much an operation has to do at the least: flops of its matrix products, numbers moved to and from memory.

Both follow from the shapes of the forward's inputs alone; no body that computes the operation can do
with less, so they bound it from below, whoever wrote it.

    products   (M, K)·(K, N) takes 2·M·K·N flops. Each has two operands that want a gradient, so the
               backward's products take twice the forward's. What a causal mask hides is counted too.
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


def _layer_norm(y: Array, x: Array, gamma: Array, beta: Array, eps: float) -> tuple[Work, Work]:
    parameters = _size(gamma, beta)
    return _both(_size(x) + parameters, _size(y), _size(x, gamma), _size(x), parameters)


def _attention(y: Array, q: Array, k: Array, v: Array, *options: Any) -> tuple[Work, Work]:
    heads = _size(q, k, v)
    return _both(heads, _size(y), heads, heads, products=4 * _size(q) * k.shape[-2])


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


_WORK: dict[str, Callable[..., tuple[Work, Work]]] = {
    "linear": _linear,
    "relu": _elementwise,
    "gelu": _elementwise,
    "softmax": _elementwise,
    "dropout": _dropout,
    "embedding": _embedding,
    "sinusoidal_positions": _sinusoidal_positions,
    "learned_positions": _learned_positions,
    "layer_norm": _layer_norm,
    "attention": _attention,
    "residual": _residual,
    "post_norm": _post_norm,
    "add_norm": _add_norm,
    "feed_forward": _feed_forward,
    "cross_entropy": _cross_entropy,
}
