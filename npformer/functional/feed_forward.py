"""Feed-forward: each token, independently of the others, is mapped to a wider layer, activated and mapped back.

    h = x W₁ + b₁      a = act(h)      y = Drop(a) W₂ + b₂

Backward is the forward read bottom-up: every line below undoes one line above it, and what each
operation does with its gradient is derived in its own file.

    da = (dy W₂ᵀ)·keep·s      dW₂ = Drop(a)ᵀ dy      db₂ = Σ_n dy_n
    dh = da·act'(h)
    dx = dh W₁ᵀ               dW₁ = xᵀ dh            db₁ = Σ_n dh_n

Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 2; dropout after the activation is common in implementations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from npformer.errors import ConfigError
from npformer.functional.dropout import DropoutCache, dropout_backward, dropout_forward
from npformer.functional.gelu import GeluCache, gelu_backward, gelu_forward
from npformer.functional.linear import LinearCache, linear_backward, linear_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.relu import ReluCache, relu_backward, relu_forward
from npformer.typing import Array

ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (relu_forward, relu_backward),
    "gelu": (gelu_forward, gelu_backward),
}


class FeedForwardCache(NamedTuple):
    up: LinearCache
    activation: str
    active: ReluCache | GeluCache
    dropout: DropoutCache
    down: LinearCache


def feed_forward_forward(
    x: Array,
    w1: Array,
    b1: Array,
    w2: Array,
    b2: Array,
    activation: str,
    draw: Draw | None,
    bits: Bits = philox_bits,
) -> tuple[Array, FeedForwardCache]:
    """Map x (..., C) by w1 (C, F), b1 (F,), the activation "relu" or "gelu", w2 (F, C), b2 (C,).

    Returns y (..., C). Raises ShapeError if the widths do not meet, ConfigError for another activation.
    """
    expect_activation(activation)
    h, up = linear_forward(x, w1, b1)  # 1. (..., F)
    a, active = ACTIVATIONS[activation][0](h)  # 2.
    dropped, dropout = dropout_forward(a, draw, bits)  # 3.
    y, down = linear_forward(dropped, w2, b2)  # 4. (..., C)
    return y, FeedForwardCache(up, activation, active, dropout, down)


def feed_forward_backward(dy: Array, cache: FeedForwardCache) -> tuple[Array, Array, Array, Array, Array]:
    """Gradients (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,)) of feed_forward_forward."""
    ddropped, dw2, db2 = linear_backward(dy, cache.down)  # back through 4
    (da,) = dropout_backward(ddropped, cache.dropout)  # back through 3
    (dh,) = ACTIVATIONS[cache.activation][1](da, cache.active)  # back through 2
    dx, dw1, db1 = linear_backward(dh, cache.up)  # back through 1
    return dx, dw1, db1, dw2, db2


def expect_activation(activation: str) -> None:
    """Raise ConfigError unless activation is one of ACTIVATIONS."""
    if activation not in ACTIVATIONS:
        raise ConfigError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")


FEED_FORWARD = Operation(feed_forward_forward, feed_forward_backward, parameters=4)
