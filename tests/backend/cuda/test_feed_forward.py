"""The feed-forward layer on a GPU, and its activations alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.cuda import cuda_ops, feed_forward, linear
from npformer.backend.cuda.device_runtime import drawn
from npformer.backend.cuda.feed_forward import activate, backward_of_activation
from npformer.functional import Draw

SHAPES = [((1, 1), 1), ((2, 3, 5), 7), ((70, 6), 33), ((3, 2, 4), 64), ((2, 3), 8200), ((0, 4), 5)]
ACTIVATION = pytest.mark.parametrize("activation", ["relu", "gelu"])


def inputs(shape: tuple[int, ...], width: int, dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(1)
    sizes = (shape, (shape[-1], width), (width,), (width, shape[-1]), (shape[-1],))
    return [rng.normal(size=size).astype(dtype) for size in sizes]


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize(("shape", "width"), SHAPES, ids=str)
@ACTIVATION
def test_equals_the_plain_pair(agree, shape, width, activation, rate, dtype):
    assert agree("feed_forward", *inputs(shape, width, dtype), activation, Draw(3, 7, 0, 11, rate, first_row=2))


@ACTIVATION
def test_blocks_take_several_rows(agree, monkeypatch, activation):
    monkeypatch.setattr(linear, "PARTS", 2)
    monkeypatch.setattr(feed_forward, "parts_of", lambda rows: 3)
    assert agree("feed_forward", *inputs((7, 4), 5), activation, Draw(3, 7, 0, 11, 0.3))  # three each, and one is left


@ACTIVATION
def test_the_last_block_stops_with_the_last_row(runtime, monkeypatch, activation):
    monkeypatch.setattr(linear, "PARTS", 2)
    monkeypatch.setattr(feed_forward, "parts_of", lambda rows: 3)
    h, da = np.zeros((9, 5)), np.ones((9, 5))
    activate(runtime, activation, h[:7], np.ones(5), drawn(None, h))
    backward_of_activation(runtime, da[:7], h[:7], activation == "gelu", drawn(None, h), False)
    assert (h[:7] == 1).all()
    assert (h[7:] == 0).all()
    assert (da[7:] == 1).all()


@pytest.mark.parametrize("backwards", [False, True])
def test_a_column_of_long_rows_is_begun_by_one_thread_and_added_to_by_another(runtimes, backwards):
    x, w1, *rest = inputs((2, 3), 8200)
    table = cuda_ops(runtimes.HostRuntime(block=40, backwards=backwards))
    (y, cache), (_, plain) = (ops.feed_forward.forward(x, w1, *rest, "relu", None) for ops in (table, PLAIN))
    found, true = (
        pair.backward(y, kept)[2] for pair, kept in ((table.feed_forward, cache), (PLAIN.feed_forward, plain))
    )
    np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-12)


@ACTIVATION
def test_inference_and_layouts(agree, lay_out, activation):
    for layout in ("gaps", "columns first"):
        assert agree("feed_forward", *(lay_out(x, layout) for x in inputs((2, 3, 5), 7)), activation, None)


@ACTIVATION
def test_a_dropped_number_is_0_whatever_it_was(runtime, activation):
    draw, h = Draw(3, 7, 0, 11, 0.5), np.full((6, 40), np.inf)
    kept = PLAIN.dropout.forward(np.ones((6, 40)), draw)[0] != 0
    a = activate(runtime, activation, h, np.zeros(40), drawn(draw, h))
    np.testing.assert_array_equal(a, np.where(kept, np.inf, 0))


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 65), (2, 9000), (0, 3), (3, 0)], ids=str)
@ACTIVATION
def test_activations_alone(agree, activation, shape, dtype):
    assert agree(activation, np.asarray(np.random.default_rng(1).normal(size=shape) * 2, dtype))


@ACTIVATION
def test_special_numbers(table, activation):
    x = np.array([np.nan, np.inf, -1e30, 1e30, 0.0, -0.0, 1e-300, -40.0, 40.0])
    found, plain = getattr(table, activation), getattr(PLAIN, activation)
    (y, cache), (true, plain_cache) = found.forward(x), plain.forward(x)
    with np.errstate(invalid="ignore"):
        dx, dtrue = found.backward(np.ones(9), cache), plain.backward(np.ones(9), plain_cache)
    np.testing.assert_allclose(y, true, rtol=1e-14)
    np.testing.assert_allclose(dx, dtrue, rtol=1e-14)
