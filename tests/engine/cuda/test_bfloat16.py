"""The linear map and the feed-forward layer with products in bfloat16, to the last bit.

The numbers are whole and so small that float32 sums of their products are exact: what is off by one bit is
rounded too often, or not at all.
"""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.engine.cuda import bfloat16
from npformer.functional import Draw
from tests.engine.cuda.test_products import nearest_bfloat16 as near

HALF = Draw(3, 7, 0, 11, 0.5)  # what is kept is doubled, which is exact


def whole(rng, most, *shape):
    """Whole numbers from −most to most; beyond 256 not all of them are bfloat16."""
    return rng.integers(-most, most, shape, endpoint=True).astype(np.float32)


def equal(found, true):
    for f, t in zip(found, true, strict=True):
        assert f.dtype == np.float32
        np.testing.assert_array_equal(f, t)


@pytest.fixture
def runtime(runtimes, monkeypatch):
    monkeypatch.setattr(bfloat16, "ROUND_FROM", 1)
    return runtimes.HostRuntime("bfloat16", block=40)


@pytest.mark.parametrize("least", [1, 25])
def test_linear(table, monkeypatch, least):
    """With 25, no operand is rounded in the forward, and in backward all, since dy has 28 numbers."""
    monkeypatch.setattr(bfloat16, "ROUND_FROM", least)
    rng, forward = np.random.default_rng(1), near if least == 1 else lambda x: x
    x, w, b, dy = (whole(rng, 300, *shape) for shape in ((4, 3), (3, 7), (7,), (4, 7)))
    y, cache = table.linear.forward(x, w, b)
    found = (y, *table.linear.backward(dy, cache))
    true = forward(x) @ forward(w) + b, near(dy) @ near(w).T, near(x).T @ near(dy), dy.sum(axis=0)
    equal(found, true)
    assert least == 25 or not np.array_equal(y, x @ w + b), "the numbers do not tell"


def test_feed_forward_with_relu(table):
    rng = np.random.default_rng(2)
    x, w1, b1, w2, b2 = (
        whole(rng, 300 if i == 0 else 3, *shape) for i, shape in enumerate(((4, 3), (3, 7), (7,), (7, 3), (3,)))
    )
    dy = whole(rng, 300, 4, 3)
    y, cache = table.feed_forward.forward(x, w1, b1, w2, b2, "relu", HALF)
    factors = PLAIN.dropout.forward(np.ones((4, 7)), HALF)[0]
    h = near(x) @ w1 + b1
    a = near(np.maximum(h, 0) * factors)
    dh = (near(dy) @ w2.T) * (h > 0) * factors
    true = (a @ w2 + b2, near(dh) @ w1.T, near(x).T @ near(dh), dh.sum(axis=0), a.T @ near(dy), dy.sum(axis=0))
    equal((y, *table.feed_forward.backward(dy, cache)), true)
    assert [part.dtype for part in cache[:3]] == ["uint16"] * 3
    assert cache.a.dtype == "uint16"  # nothing of the hidden layer is kept in float32


def test_feed_forward_with_gelu_is_near_the_plain_pair(table):
    """Two roundings in a row, each by 2⁻⁹ of a number at most, in sums of many (with ReLU a gate may turn instead)."""
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=shape) for shape in ((6, 40), (40, 50), (50,), (50, 40), (40,))]
    dy = rng.normal(size=(6, 40))
    true, plain_cache = PLAIN.feed_forward.forward(*inputs, "gelu", HALF)
    y, cache = table.feed_forward.forward(*(x.astype(np.float32) for x in inputs), "gelu", HALF)
    found = (y, *table.feed_forward.backward(dy.astype(np.float32), cache))
    for f, t in zip(found, (true, *PLAIN.feed_forward.backward(dy, plain_cache)), strict=True):
        assert np.linalg.norm(f - t) <= 2 * 2.0**-8 * np.linalg.norm(t)


def test_no_operand_is_rounded_twice(runtime, table):
    """Forward rounds x and W; backward only dy: for dx it is dy and W, for dW x and dy."""
    rng = np.random.default_rng(4)
    y, cache = table.linear.forward(whole(rng, 9, 4, 3), whole(rng, 9, 3, 7), whole(rng, 9, 7))
    assert runtime.launched.count("bfloat16.round_rows") == 2
    runtime.launched.clear()
    table.linear.backward(y, cache)
    assert runtime.launched.count("bfloat16.round_rows") == 1


def test_the_hidden_layer_is_rounded_by_the_kernel_that_makes_it(runtime, table):
    rng = np.random.default_rng(5)
    inputs = [whole(rng, 9, *shape) for shape in ((4, 3), (3, 7), (7,), (7, 3), (3,))]
    y, cache = table.feed_forward.forward(*inputs, "relu", HALF)
    table.feed_forward.backward(y, cache)
    assert runtime.launched.count("bfloat16.round_rows") == 4  # x, W₁, W₂; dy


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_activation_alone_is_not_rounded(agree, activation):
    assert agree(activation, whole(np.random.default_rng(7), 300, 4, 7))
