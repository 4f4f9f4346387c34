"""A layer's repr: the tree of its parts, with shapes and counts, each number of which is counted once."""

import numpy as np
import pytest

import npformer as npf
from npformer.check import catalogue
from npformer.layers import Layer, Linear
from npformer.layers.parameter import Buffer, Parameter
from npformer.layers.tree import tree_of


class Twins(Layer):
    """Three equal layers, one that differs, one parameter with two names, and a buffer."""

    def __init__(self, backend):
        super().__init__(backend)
        self.scale = Parameter("scale", np.ones(()))
        self.mean = Buffer("mean", np.zeros(5))
        self.maps = [*(Linear(3, 2, backend=backend) for _ in range(3)), Linear(2, 2, backend=backend)]
        self.again = self.scale
        self.table = {"last": self.maps[3]}


def test_the_tree_of_a_layer(numpy64):
    assert repr(Twins(numpy64)).splitlines() == [
        "part          class       parameters  arrays",
        "Twins                             31  scale scalar; mean 5 (buffer); scale scalar = scale",
        "  maps.0–2    3 × Linear       3 × 8  weight 3×2; bias 2",
        "  maps.3      Linear               6  weight 2×2; bias 2",
        "  table.last  Linear                  weight 2×2 = maps.3.weight; bias 2 = maps.3.bias",
    ]


def test_it_counts_what_the_model_counts(numpy64):
    layers = [case.build(numpy64) for case in catalogue("")]
    models = [layer for layer in layers if isinstance(layer, Layer)]
    assert len(models) > 20
    assert [tree_of(layer).trained for layer in models] == [layer.num_parameters() for layer in models]


def test_an_unfinished_layer_has_a_repr_too():
    assert repr(object.__new__(Linear)).splitlines()[1] == "Linear"


def test_a_layer_that_holds_what_it_is_in_is_no_endless_tree(numpy64):
    one = Linear(2, 2, backend=numpy64)
    one.itself = {"self": one}
    assert repr(one).count("\n") == 1


@pytest.mark.parametrize("layers", [2, 12])
def test_a_deep_model_is_no_longer_than_a_shallow_one(layers):
    config = npf.EncoderConfig(vocab_size=5, d_model=8, num_heads=2, d_ff=8, num_layers=layers, max_seq_len=4)
    shown = repr(npf.Encoder(config, backend=npf.get_backend("numpy")))
    assert f"{layers} × EncoderLayer" in shown
    assert shown.count("\n") < 20
