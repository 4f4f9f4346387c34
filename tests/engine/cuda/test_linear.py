"""The linear map and the feed-forward layer on a GPU, and activations alone."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.engine.cuda import feed_forward, linear
from npformer.engine.cuda.device_runtime import drawn
from npformer.engine.cuda.feed_forward import activate, backward_of_activation
from npformer.functional import Draw
from tests.backend import test_kernels as kernels

test_gelu = kernels.test_gelu_near_0_where_its_pieces_meet_and_far_out
SHAPES = [((1, 1), 1), ((3, 5), 7), ((2, 3, 5), 7), ((2, 4, 33), 65), ((40, 32), 300), ((70, 6), 33), ((3, 2, 4), 64),
          ((2, 3, 2, 6), 5), ((2, 3), 8200), ((0, 4), 3), ((2, 0, 4), 3)]  # fmt: skip
ACTIVATION = pytest.mark.parametrize("activation", ["relu", "gelu"])
KIND = pytest.mark.parametrize("kind", ["linear", "relu", "gelu"])


def inputs(shape, width, dtype="float64"):
    """Of a feed-forward layer; the first three are a linear map's."""
    rng = np.random.default_rng(1)
    sizes = (shape, (shape[-1], width), (width,), (width, shape[-1]), (shape[-1],))
    return [rng.normal(size=size).astype(dtype) for size in sizes]


def case(kind, given, draw=None):
    """The operation with all its inputs: a linear map, or a layer with this activation."""
    return ("linear", *given[:3]) if kind == "linear" else ("feed_forward", *given, kind, draw)


@pytest.fixture
def three_parts(monkeypatch):
    """Blocks of seven rows take three each, and one is left."""
    monkeypatch.setattr(linear, "PARTS", 2)
    monkeypatch.setattr(feed_forward, "parts_of", lambda rows: 3)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize(("shape", "width"), SHAPES, ids=str)
@KIND
def test_equals_the_plain_pair(agree, shape, width, kind, rate, dtype):
    assert agree(*case(kind, inputs(shape, width, dtype), Draw(3, 7, 0, 11, rate, first_row=2)))


@KIND
def test_blocks_take_several_rows(agree, three_parts, kind):
    assert agree(*case(kind, inputs((7, 4), 5), Draw(3, 7, 0, 11, 0.3)))


@ACTIVATION
def test_the_last_block_stops_with_the_last_row(runtime, three_parts, activation):
    """Beyond it is NaN elsewhere, and what is added to that leaves no trace."""
    y, h, da = np.zeros((9, 5)), np.zeros((9, 5)), np.ones((9, 5))
    runtime.launch("linear.add_bias", "float64", 3, 32, y[:7], np.ones(5), 7, 5, 3)
    activate(runtime, activation, h[:7], np.ones(5), drawn(None, h))
    backward_of_activation(runtime, da[:7], h[:7], activation == "gelu", drawn(None, h), False)
    for x in (y, h):
        assert (x[:7] == 1).all()
        assert (x[7:] == 0).all()
    assert (da[7:] == 1).all()


@pytest.mark.parametrize("layout", ["gaps", "columns first"])
@KIND
def test_inputs_in_any_memory_layout(agree, lay_out, layout, kind):
    assert agree(*case(kind, [lay_out(x, layout) for x in inputs((2, 3, 10), 6)]))


def test_the_gradient_goes_into_columns_of_a_block_without_another_array(runtime, table):
    x, weight, bias, *_ = inputs((4, 10), 6)
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
