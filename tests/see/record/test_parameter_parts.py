"""Parameters are found by their place in memory: whole, transposed, as columns of a block, or in Fortran's order."""

import numpy as np
import pytest

from npformer.layers import Layer, Parameter
from npformer.layers.linear import Linear
from npformer.see.record.parameter_parts import Parameters, Part
from tests.check.functions import normals
from tests.check.small_models import BACKEND


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
        (table, [Part("table", None, False)]),
        (layer.output.weight.data, [Part("table", None, True)]),
        (block, [Part("a", (0, 2), False), Part("b", (2, 6), False)]),
        (block[:, :2], [Part("a", None, False)]),
        (block[:, 1:4], [Part("a", (0, 1), False), Part("b", (1, 3), False)]),
        (table.copy(), []),
        (np.zeros(0), []),
        (table.astype(np.float32), []),
    ):
        assert parameters.in_array(array) == parts


def test_what_is_added_to_a_part_belongs_to_its_parameter(blocks):
    layer, parameters = blocks
    added = np.arange(15.0).reshape(5, 3)
    assert parameters.split(layer.output.weight.grad, added)["table"].tolist() == added.T.tolist()
    columns = np.arange(9.0).reshape(3, 3)
    parts = parameters.split(layer.block.grad[:, 1:4], columns)
    assert parts["a"].tolist() == np.hstack([np.zeros((3, 1)), columns[:, :1]]).tolist()
    assert parts["b"].tolist() == np.hstack([columns[:, 1:], np.zeros((3, 2))]).tolist()
    assert parameters.split(np.zeros((3, 3)), columns) == {}
