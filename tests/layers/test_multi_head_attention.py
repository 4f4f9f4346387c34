"""Multi-head attention against a loop over batch, heads and queries in plain NumPy."""

import re

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.errors import ShapeError
from npformer.functional import AttentionMask
from npformer.layers import AttentionRecorder, Context, MultiHeadAttention
from tests.check.functions import normal

VISIBLE = np.array([[True, True, False, True, False], [False, True, True, True, True]])


@pytest.fixture
def layer(numpy64):
    attention = shaken(MultiHeadAttention(6, 3, backend=numpy64))
    assert isinstance(attention, MultiHeadAttention)
    return attention


def by_loops(layer, x, memory, visible):
    """(y (B, T, C), weights (B, H, T, S)); visible (B, T, S)."""
    p = {name: view.data for name, view in layer.named_parameters()}
    (batch, queries, width), num_heads = x.shape, layer.num_heads
    head_width = width // num_heads
    merged = np.zeros(x.shape)
    all_weights = np.zeros((batch, num_heads, queries, memory.shape[1]))
    for b, h, t in np.ndindex(batch, num_heads, queries):
        mine = slice(h * head_width, (h + 1) * head_width)
        q = x[b, t] @ p["query.weight"][:, mine] + p["query.bias"][mine]
        k = memory[b] @ p["key.weight"][:, mine] + p["key.bias"][mine]
        v = memory[b] @ p["value.weight"][:, mine] + p["value.bias"][mine]
        seen = np.flatnonzero(visible[b, t])
        scores = np.exp(k[seen] @ q / np.sqrt(head_width))
        all_weights[b, h, t, seen] = scores / scores.sum()
        merged[b, t, mine] = all_weights[b, h, t] @ v
    return merged @ p["output.weight"] + p["output.bias"], all_weights


def test_self_attention_equals_loops(layer):
    x, recorder = normal(2, 5, 6), AttentionRecorder()
    causal = np.tril(np.ones((5, 5), dtype=bool)) & VISIBLE[:, None, :]
    expected, weights = by_loops(layer, x, x, causal)  # (2, 0) sees nothing: weights and heads are 0
    y = layer(x, context=Context(AttentionMask(VISIBLE, causal=True), recorder=recorder.child("here")))
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(recorder.weights["here"], weights, rtol=1e-12, atol=1e-14)
    assert not weights[1, :, 0].any()


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
