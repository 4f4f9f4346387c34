"""A learner's answer: Feed-forward."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    dropout_backward,
    dropout_forward,
    linear_backward,
    linear_forward,
    relu_backward,
    relu_forward,
)


def feed_forward_forward(x, w1, b1, w2, b2, keep=None, scale=1.0):
    """x (..., C), w1 (C, F), b1 (F,), w2 (F, C), b2 (C,), keep (..., F) and scale of the dropout inside.

    Returns y (..., C) and a cache.
    """
    h, up_cache = linear_forward(x, w1, b1)  # 1. (..., F)
    a, relu_cache = relu_forward(h)  # 2. (..., F)
    dropped, dropout_cache = dropout_forward(a, keep, scale)  # 3. (..., F)
    y, down_cache = linear_forward(dropped, w2, b2)  # 4. (..., C)
    return y, (up_cache, relu_cache, dropout_cache, down_cache)


def feed_forward_backward(dy, cache):
    """dy (..., C). Returns (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,)), in this order."""
    up, relu, dropout, down = cache
    d, dw2, db2 = linear_backward(dy, down)
    d = relu_backward(dropout_backward(d, dropout), relu)
    dx, dw1, db1 = linear_backward(d, up)
    return dx, dw1, db1, dw2, db2
