"""Masks: each pair of query and key decided by the words of the docstring, one at a time."""

import itertools

import numpy as np
import pytest

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
