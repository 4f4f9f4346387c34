"""Self-attention by options: each kind computes its definition."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask, linear_attention_forward, rotary_forward
from npformer.functional.relative_bias import relative_bias_forward
from npformer.layers import (
    AttentionRecorder,
    Context,
    MultiHeadAttention,
    SelfAttention,
)
from tests.check.functions import normal

SEEN = np.array([[True] * 6, [False, True, True, False, True, False]])  # a first query that sees nothing
CAUSAL = AttentionMask(SEEN, causal=True)
X = normal(2, 6, 8)


def built(backend, **words):
    layer = shaken(SelfAttention(**words).build(8, 2, dropout=0.0, backend=backend, seed=1))
    assert isinstance(layer, MultiHeadAttention)
    return layer


def heads(layer, name):
    """Queries, keys or values (B, H, T, D) of X."""
    p = {part: view.data for part, view in layer.named_parameters()}
    return (X @ p[f"{name}.weight"] + p[f"{name}.bias"]).reshape(2, 6, 2, 4).swapaxes(1, 2)


def weights_of(layer, mask):
    recorder = AttentionRecorder()
    layer(X, context=Context(mask, recorder=recorder.child("here")))
    return recorder.weights["here"]


def softmax(scores, visible):
    powers = np.where(visible, np.exp(scores), 0)
    return powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)


def expect_weights(layer, weights):
    """The layer shows these weights (B, H, T, S), and gives the values' mean by them through its last map."""
    np.testing.assert_allclose(weights_of(layer, CAUSAL), weights, rtol=1e-11, atol=1e-14)
    expected = layer.output((weights @ heads(layer, "value")).swapaxes(1, 2).reshape(2, 6, 8))
    np.testing.assert_allclose(layer(X, context=Context(CAUSAL)), expected, rtol=1e-11, atol=1e-13)


VISIBLE = np.tri(6, dtype=bool) & SEEN[:, None, None, :]
BACK = np.arange(6)[:, None] - np.arange(6)


def test_rotary_turns_queries_and_keys_and_leaves_values(numpy64):
    layer = built(numpy64, position_encoding="rotary")
    q, k = (rotary_forward(heads(layer, name))[0] for name in ("query", "key"))
    expect_weights(layer, softmax(q @ k.swapaxes(2, 3) / 2, VISIBLE))


def test_a_relative_bias_is_added_to_the_scores(numpy64):
    layer = built(numpy64, position_encoding="relative", num_buckets=4, max_distance=3, causal=True)
    assert layer.score_bias is not None
    bias, _ = relative_bias_forward(layer.score_bias.weight.data, 6, 6, 0, True, 3)
    scores = heads(layer, "query") @ heads(layer, "key").swapaxes(2, 3) / 2 + bias
    expect_weights(layer, softmax(scores, VISIBLE))


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ({}, True),
        ({"attention": "local", "window": 2}, abs(BACK) < 2),
        ({"attention": "local", "stride": 3}, BACK % 3 == 0),
        ({"attention": "local", "window": 2, "stride": 3}, (abs(BACK) < 2) | (BACK % 3 == 0)),
    ],
)
def test_a_query_takes_the_mean_of_the_keys_that_it_sees(words, near, numpy64):
    """All before it, or near ones; of nothing the mean is 0."""
    layer = built(numpy64, **words)
    scores = heads(layer, "query") @ heads(layer, "key").swapaxes(2, 3) / 2
    expect_weights(layer, softmax(scores, VISIBLE & near))


@pytest.mark.parametrize("position_encoding", ["absolute", "rotary"])
def test_linear_attention_is_its_operation_between_the_projections(position_encoding, numpy64):
    layer = built(numpy64, attention="linear", position_encoding=position_encoding)
    q, k, v = (heads(layer, name) for name in ("query", "key", "value"))
    if position_encoding == "rotary":
        q, k = rotary_forward(q)[0], rotary_forward(k)[0]
    out, _ = linear_attention_forward(q, k, v, CAUSAL)
    expected = layer.output(out.swapaxes(1, 2).reshape(2, 6, 8))
    np.testing.assert_allclose(layer(X, context=Context(CAUSAL)), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(weights_of(layer, CAUSAL) @ v, out, rtol=1e-11, atol=1e-14)
