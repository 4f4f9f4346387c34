"""The linear map on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend.cuda import linear

SHAPES = [((1, 1), 1), ((3, 5), 7), ((2, 4, 33), 65), ((40, 32), 300), ((2, 3, 2, 6), 5), ((0, 4), 3), ((2, 0, 4), 3)]


def inputs(shape: tuple[int, ...], width: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(1)
    made = (rng.normal(size=shape), rng.normal(size=(shape[-1], width)), rng.normal(size=width))
    return [x.astype(dtype) for x in made]


@pytest.mark.parametrize(("shape", "width"), SHAPES, ids=str)
def test_equals_the_plain_pair(agree, shape, width, dtype):
    assert agree("linear", *inputs(shape, width, dtype))


def test_blocks_take_several_rows(agree, monkeypatch):
    monkeypatch.setattr(linear, "PARTS", 2)
    assert agree("linear", *inputs((7, 4), 5, "float64"))  # three each, and one is left


def test_the_last_block_stops_with_the_last_row(runtime):
    """Beyond it is NaN elsewhere, and what is added to that leaves no trace."""
    y = np.zeros((9, 5))
    runtime.launch("linear.add_bias", "float64", 3, 32, y[:7], np.ones(5), 7, 5, 3)
    np.testing.assert_array_equal(y, np.repeat([[1.0], [0.0]], [7, 2], axis=0) * np.ones(5))


@pytest.mark.parametrize("layout", ["gaps", "columns first"])
def test_inputs_in_any_memory_layout(agree, lay_out, layout):
    assert agree("linear", *(lay_out(x, layout) for x in inputs((2, 3, 10), 6, "float64")))


def test_columns_of_a_block(runtime, agree):
    x, block, bias = inputs((2, 3, 10), 18, "float64")
    assert agree("linear", x, block[:, 6:12], bias[6:12])
    wide = np.random.default_rng(2).normal(size=(2, 3, 30))
    runtime.launched.clear()
    assert agree("linear", wide[..., 10:20], block, bias)  # x too is a view of columns
    assert set(runtime.launched) == {"linear.add_bias", "sums.add_rows"}


def test_the_gradient_goes_into_columns_of_a_block_without_another_array(runtime, table):
    x, weight, bias = inputs((4, 10), 6, "float64")
    block, places = np.ones((10, 18)), np.ones(18)
    _, cache = table.linear.forward(x, weight, bias)
    runtime.launched.clear(), runtime.cublas.calls.clear()
    dy = np.random.default_rng(3).normal(size=(4, 6))
    table.linear.backward(dy, cache, into=(block[:, 6:12], places[6:12]))
    np.testing.assert_allclose(block[:, 6:12], 1 + x.T @ dy, rtol=1e-13)
    assert (block[:, :6] == 1).all()
    assert (block[:, 12:] == 1).all()
    assert [name for name, _ in runtime.cublas.calls] == ["cublasGemmEx"] * 2
    assert runtime.launched == ["sums.add_rows"]
