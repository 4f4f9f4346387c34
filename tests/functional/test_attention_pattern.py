"""Gathering keys for their queries: every visible pair occurs once, and gradients of copies are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.functional.attention_pattern import Stride, Window

Host = np.ndarray[Any, Any]
PATTERNS = [Window(1, False), Window(3, False), Window(3, True), Window(9, False), Stride(1), Stride(3), Stride(9)]
EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS, ids=str)
LENGTHS = pytest.mark.parametrize("length", [1, 3, 7, 9])


def met(pattern: Window | Stride, length: int) -> set[tuple[int, int]]:
    """(query, key) of every pair that stands in a block together, read off the numbers that were moved."""
    numbers = np.arange(1.0, length + 1).reshape(1, 1, length, 1)
    keys = pattern.keys(numbers)[..., 0]  # (1, 1, G, M)
    blocks = pattern.blocks(numbers)[..., 0]  # (1, 1, G, R)
    pairs = [
        (int(query) - 1, int(key) - 1)
        for group in range(keys.shape[2])
        for query in blocks[0, 0, group]
        for key in keys[0, 0, group]
        if query and key  # 0 fills up
    ]
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@EVERY_PATTERN
@LENGTHS
def test_every_pair_that_may_meet_does(pattern, length):
    found = met(pattern, length)
    for t in range(length):
        for s in range(length):
            if isinstance(pattern, Stride):
                assert ((t, s) in found) == ((t - s) % pattern.size == 0)
            elif abs(t - s) < pattern.size and (s <= t or not pattern.causal):
                assert (t, s) in found


@EVERY_PATTERN
@LENGTHS
def test_positions_say_which_keys_were_brought(pattern, length):
    x = np.arange(1.0, length + 1).reshape(1, 1, length, 1)
    positions = pattern.positions(length, x)
    brought = pattern.rows(np.broadcast_to(*_for_every_query(pattern, x)), length)[0, 0]  # (T, M)
    assert positions.shape == brought.shape
    inside = (positions >= 0) & (positions < length)
    assert np.array_equal(np.where(inside, positions + 1, 0), brought)


def _for_every_query(pattern: Window | Stride, x: Host) -> tuple[Host, tuple[int, ...]]:
    keys, queries = pattern.keys(x)[..., 0][:, :, :, None, :], pattern.blocks(x).shape[3]
    return keys, (*keys.shape[:3], queries, keys.shape[4])


@EVERY_PATTERN
@LENGTHS
def test_backward_is_the_transpose(pattern, length, rng):
    x = rng.normal(size=(2, 3, length, 4))
    keys, blocks = pattern.keys(x), pattern.blocks(x)
    dkeys, dblocks = rng.normal(size=keys.shape), rng.normal(size=blocks.shape)
    assert np.sum(keys * dkeys) == pytest.approx(np.sum(x * pattern.keys_backward(dkeys, length)), rel=1e-11)
    assert np.sum(blocks * dblocks) == pytest.approx(np.sum(x * pattern.rows(dblocks, length)), rel=1e-11)
    assert np.array_equal(pattern.rows(blocks, length), x)
