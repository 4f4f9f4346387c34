"""Compiled Philox draws the numbers of functional/philox.py, from any place on."""

import numpy as np
import pytest

from npformer.engine.numba import OPS
from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.philox import draw_lanes, numbers, room_for_lanes
from npformer.functional import AttentionMask, Draw, philox_bits
from npformer.functional.philox import WORD

EXTREMES = [0, 1, 2**32, 2**63 - 1, 2**63, WORD - 1, WORD]


@inlined
def drawn(numbers, size):
    room = room_for_lanes(size)
    words = np.full(room.size + 4, np.uint64(0))  # one block more than there is room for
    base = draw_lanes(words, numbers, 0, size)
    return words, base, room.size


def take_lanes(numbers, size):
    """So many numbers of a draw."""
    words, base, room = drawn(numbers, size)
    assert not words[room:].any(), "written past the room"
    return np.asarray(words.view(np.uint16)[base : base + size])


def take(draw, shape):
    like = np.empty(shape)
    return take_lanes(numbers(draw, like), like.size)


@pytest.mark.parametrize("step", EXTREMES)
def test_extreme_words(step):
    for seed, micro, site in zip(EXTREMES, reversed(EXTREMES), EXTREMES[3:] + EXTREMES[:3], strict=True):
        draw = Draw(seed, step, micro, site, 0.5, 3)
        assert np.array_equal(take(draw, (2, 37)), philox_bits(draw, 74, np.empty((2, 37))))


@pytest.mark.parametrize("size", [*range(35), 8191, 8192])
def test_every_size_from_every_lane(size):
    draw = Draw(1, 2, 3, 4, 0.5)
    whole = philox_bits(draw, size + 40, np.empty(1))
    for start in range(18):
        lanes = numbers(draw, np.empty(1))._replace(start=start)
        assert np.array_equal(take_lanes(lanes, size), whole[start : start + size]), start


def test_far_along_a_batch():
    """Numbers beyond 2³²: a long batch of long rows."""
    draw = Draw(1, 2, 3, 4, 0.5, first_row=2**33 + 1)
    assert np.array_equal(take(draw, (1, 19)), philox_bits(draw, 19, np.empty((1, 19))))


@pytest.mark.parametrize("kind", [int, np.int32, np.uint8])
def test_numbers_of_any_kind_are_a_kernels(kind, dtype):
    """A kernel takes the parts of a NamedTuple in their own types alone."""
    x, mask = np.ones((2, 1, 3, 4), dtype), AttentionMask(causal=kind(1), query_offset=kind(1), window=kind(2))
    draws = [Draw(cast(1), cast(2), cast(0), cast(3), 0.5, first_row=cast(5)) for cast in (int, kind)]
    (y, _), (true, _) = (OPS.attention.forward(x, x, x, mask, draw) for draw in draws)
    np.testing.assert_array_equal(y, true)
