"""Masks: each pair of query and key decided by the words of the docstring, one at a time."""

import itertools

import numpy as np
import pytest

from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import ALL_VISIBLE, AttentionMask

B, T, S = 2, 4, 6
LIKE = np.ones((B, 1, T, 1))
KEY_VISIBLE = np.array([[True, True, False, True, False, True], [False] * 6])


def may_look(mask, b, i, j):
    """The rules in words: not the future, near or on the stride, and not hidden."""
    position = i + mask.query_offset
    if mask.causal and j > position:
        return False
    rules = []
    if mask.window is not None:
        near = range(position - mask.window + 1, position + 1 if mask.causal else position + mask.window)
        rules.append(j in near)
    if mask.stride is not None:
        rules.append(abs(position - j) % mask.stride == 0)
    if rules and not any(rules):
        return False
    return mask.key_visible is None or bool(mask.key_visible[b, j])


@pytest.mark.parametrize("key_visible", [None, KEY_VISIBLE], ids=["all keys", "padding"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("query_offset", [0, 2, 9])
def test_every_pair(key_visible, causal, query_offset):
    for window, stride in itertools.product([None, 1, 2, 100], [None, 1, 2, 3]):
        mask = AttentionMask(key_visible, causal, query_offset, window, stride)
        visible = mask.visible(T, S, LIKE)
        visible_pairs = np.broadcast_to(True if visible is None else visible, (B, 1, T, S))
        wanted = [[[may_look(mask, b, i, j) for j in range(S)] for i in range(T)] for b in range(B)]
        assert visible_pairs[:, 0].tolist() == wanted, mask


def test_nothing_hidden_is_nothing_computed():
    assert ALL_VISIBLE.visible(T, S, LIKE) is None
    assert AttentionMask(query_offset=3).visible(T, S, LIKE) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, r"window: expected an integer >= 1 or None, got 0"),
        ({"stride": -2}, r"stride: expected an integer >= 1 or None, got -2"),
        ({"query_offset": -1}, r"query_offset: expected an integer >= 0, got -1"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ConfigError, match=message):
        AttentionMask(**options)


@pytest.mark.parametrize("shape", [(S,), (B, S + 1), (1, S), (B + 1, S), (B, 1, S)])
def test_key_visible_of_another_shape_is_an_error(shape):
    with pytest.raises(ShapeError, match=rf"key_visible: expected \(B, S\) = \({B}, {S}\), got \("):
        AttentionMask(np.ones(shape, dtype=bool)).visible(T, S, LIKE)


@pytest.mark.parametrize("values", [np.zeros((B, S)), np.ones((B, S), dtype=int)])
def test_a_mask_of_numbers_is_an_error(values):
    message = rf"key_visible: expected booleans, True = this key may be looked at, got {values.dtype}; .* mask == 0"
    with pytest.raises(DTypeError, match=message):
        AttentionMask(values).visible(T, S, LIKE)
