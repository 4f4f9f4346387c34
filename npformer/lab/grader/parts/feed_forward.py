"""Feed-forward."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.dropout import dropout_backward, dropout_forward
from npformer.lab.grader.parts.linear import linear_backward, linear_forward
from npformer.lab.grader.parts.relu import relu_backward, relu_forward
from npformer.typing import Array


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[Array, Any]:
    """x (..., C), w1 (C, F), b1 (F,), w2 (F, C), b2 (C,), keep (..., F) and scale of the dropout inside.

    Returns y (..., C) and a cache.
    """
    h, up_cache = linear_forward(x, w1, b1)  # 1. (..., F)
    a, relu_cache = relu_forward(h)  # 2. (..., F)
    dropped, dropout_cache = dropout_forward(a, keep, scale)  # 3. (..., F)
    y, down_cache = linear_forward(dropped, w2, b2)  # 4. (..., C)
    return y, (up_cache, relu_cache, dropout_cache, down_cache)


def feed_forward_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,)), in this order."""
    up_cache, relu_cache, dropout_cache, down_cache = cache
    ddropped, dw2, db2 = linear_backward(dy, down_cache)  # back through 4
    da = dropout_backward(ddropped, dropout_cache)  # back through 3
    dh = relu_backward(da, relu_cache)  # back through 2
    dx, dw1, db1 = linear_backward(dh, up_cache)  # back through 1
    return dx, dw1, db1, dw2, db2
