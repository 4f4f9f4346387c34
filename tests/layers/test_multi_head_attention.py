"""Multi-head attention against a loop over batch, heads and queries in plain NumPy."""

import re

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.errors import ShapeError
from npformer.layers import MultiHeadAttention


@pytest.fixture
def layer(numpy64):
    attention = shaken(MultiHeadAttention(6, 3, backend=numpy64))
    assert isinstance(attention, MultiHeadAttention)
    return attention


def test_query_key_and_value_are_columns_of_one_block(layer):
    views = dict(layer.named_parameters())
    for i, part in enumerate(("query", "key", "value")):
        for kind, block in (("weight", layer.weight), ("bias", layer.bias)):
            view = views[f"{part}.{kind}"]
            columns = slice(6 * i, 6 * (i + 1))
            assert np.array_equal(view.data, block.data[..., columns])
            view.data[...] = 10 * i + len(kind)
            view.grad[...] = i + 1
            assert np.all(block.data[..., columns] == 10 * i + len(kind))
            assert np.all(block.grad[..., columns] == i + 1)


@pytest.mark.parametrize(
    ("x", "memory", "text"),
    [
        ((2, 5), None, "x: expected (B, T, d_model=6), got (2, 5)"),
        ((2, 3, 5), None, "x: expected (B, T, d_model=6), got (2, 3, 5)"),
        ((2, 3, 6), (2, 3, 7), "memory: expected (B, S, d_model=6), got (2, 3, 7)"),
        ((2, 3, 6), (6,), "memory: expected (B, S, d_model=6), got (6,)"),
        ((2, 3, 6), (3, 5, 6), "k: expected (B=2, H=3, S, D=2), got (3, 3, 5, 2)"),
    ],
)
def test_tokens_of_another_shape_are_refused(layer, x, memory, text):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        layer.forward(np.ones(x), None if memory is None else np.ones(memory))
