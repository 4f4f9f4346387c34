"""The listener: the tree of calls, whose backward belongs to which call, and hooks that take part.

Parameters are found by their place in memory: whole, transposed, as columns of a block, or in Fortran's order.
"""

import numpy as np
import pytest

from npformer.layers import Layer, Parameter
from npformer.layers.linear import Linear
from npformer.see.record.calls import Hooks, ParameterPart, Parameters, listening
from tests.check.functions import normal, normals
from tests.check.own_code import Passing
from tests.check.small_models import BACKEND

X = normal(2, 3)


def test_a_layer_that_hands_on_the_cache_of_an_operation():
    layer = Passing(BACKEND)
    with listening(layer) as recorder:
        y, cache = layer.forward(X)
        layer.backward(np.ones_like(y), cache)
    outer, inner = recorder.calls
    assert (inner.parent, outer.parts, outer.operation, inner.operation) == (outer, [inner], "", "linear")
    assert [call.forward_time + call.backward_time for call in recorder.calls] == [(0, 3, 4, 7), (1, 2, 5, 6)]
    assert np.array_equal(inner.added[0], layer.inner.weight.grad)


class Halving(Layer):
    """A layer without a cache."""

    def forward(self, x):
        return x / 2, None

    def backward(self, dy, cache):
        return dy / 2


class Chain(Layer):
    """It uses a layer three times."""

    def __init__(self):
        super().__init__(BACKEND)
        self.half = Halving(BACKEND)

    def forward(self, x):
        for _ in range(3):
            x, _ = self.half.forward(x)
        return x, None

    def backward(self, dy, cache):
        for _ in range(3):
            dy = self.half.backward(dy, None)
        return dy


def test_calls_without_a_cache_are_met_from_the_last_to_the_first():
    layer = Chain()
    with listening(layer) as recorder:
        layer.backward(np.ones(2), layer.forward(np.ones(2))[1])
    assert [call.upstream.tolist() for call in recorder.calls] == [[1, 1], [0.25, 0.25], [0.5, 0.5], [1, 1]]
    assert [call.backward_time for call in recorder.calls] == [(8, 15), (13, 14), (11, 12), (9, 10)]


class Doubling(Hooks):
    """Doubles the gradient that goes into operations, and halves what comes out."""

    def __init__(self):
        self.seen = []

    def inputs(self, call, inputs):
        self.seen.append(call.name)
        return inputs

    def outputs(self, call, output):
        return output + 1 if call.operation else output

    def entering(self, call, dy):
        return 2 * dy if call.operation else dy

    def leaving(self, call, gradients):
        return gradients / 2 if call.operation else gradients


def test_a_watch_may_change_what_is_passed():
    layer, hooks = Linear(3, 3, backend=BACKEND), Doubling()
    expected, cache = layer.forward(X)
    dx = layer.backward(np.ones_like(expected), cache)
    once = layer.weight.grad.copy()
    with listening(layer, hooks=hooks) as recorder:
        y, cache = layer.forward(X)
        returned = layer.backward(np.ones_like(y), cache)
    assert hooks.seen == ["Linear", "Linear.linear"]
    assert np.array_equal(y, expected + 1)
    assert np.allclose(returned, dx)
    assert np.allclose(layer.weight.grad, 3 * once), "once without the hooks, twice with them"
    assert np.array_equal(recorder.calls[1].upstream, 2 * np.ones_like(y))


def test_a_backward_whose_cache_is_unknown():
    layer = Linear(3, 3, backend=BACKEND)
    y, cache = layer.forward(X)
    seen = []

    class Noting(Hooks):
        def entering(self, call, dy):
            seen.append(call)
            return dy

    with listening(layer, hooks=Noting()) as recorder:
        layer.backward(np.ones_like(y), cache)
    assert seen == [None, None]
    assert recorder.calls == []


class Blocks(Layer):
    """A plain matrix, a block of two parameters, and a tied use of the matrix."""

    def __init__(self, order="C"):
        super().__init__(BACKEND)
        normal = normals()
        self.table = Parameter("table", np.asarray(normal(3, 5), order=order))
        self.block = Parameter("block", normal(3, 6), {"a": slice(0, 2), "b": slice(2, 6)})
        self.output = Linear(5, 3, backend=BACKEND, weight=self.table.transposed("weight"))


@pytest.fixture(params=["C", "F"])
def blocks(request):
    layer = Blocks(request.param)
    return layer, Parameters(dict(layer.named_parameters()), BACKEND.device)


def test_inputs(blocks):
    layer, parameters = blocks
    table, block = layer.table.data, layer.block.data
    for array, parts in (
        (table, [ParameterPart("table", None, False)]),
        (layer.output.weight.data, [ParameterPart("table", None, True)]),
        (block, [ParameterPart("a", (0, 2), False), ParameterPart("b", (2, 6), False)]),
        (block[:, :2], [ParameterPart("a", None, False)]),
        (block[:, 1:4], [ParameterPart("a", (0, 1), False), ParameterPart("b", (1, 3), False)]),
        (table.copy(), []),
        (np.zeros(0), []),
        (table.astype(np.float32), []),
    ):
        assert parameters.in_array(array) == parts


def test_what_is_in_an_array_of_several_parameters_is_found_for_each():
    x = np.arange(18.0).reshape(3, 6)
    assert ParameterPart("b", (2, 6), False).of(x).tolist() == x[:, 2:].tolist()
    assert ParameterPart("b", (2, 6), False).entry((1, 0)) == (1, 2)
    assert ParameterPart("table", None, True).of(x).tolist() == x.T.tolist()
    assert ParameterPart("table", None, True).entry((5, 2)) == (2, 5)
