"""Positions: the formula number by number, the rotation, odd widths, offsets, and the learned table's end."""

import math

import numpy as np
import pytest

from npformer.functional import (
    learned_positions_backward,
    learned_positions_forward,
    sinusoidal_positions_backward,
    sinusoidal_positions_forward,
)


def encoding(length, width, offset=0):
    """PE as (length, width): what is added to zeros."""
    return sinusoidal_positions_forward(np.zeros((length, width)), offset)[0]


@pytest.mark.parametrize("width", [1, 2, 5, 8])
@pytest.mark.parametrize("offset", [0, 3, 100_000])
def test_sines_stand_in_even_columns_and_cosines_in_odd_ones(width, offset):
    table = encoding(6, width, offset)
    for p in range(6):
        for column in range(width):
            angle = (p + offset) / 10000 ** (2 * (column // 2) / width)
            wanted = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[p, column] == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("delta", [1, 7, 50])
def test_a_step_of_delta_rotates_each_pair_by_the_same_angle_everywhere(delta):
    width = 8
    table = encoding(200, width)
    for i in range(width // 2):
        angle = delta * 10000 ** (-2 * i / width)
        rotation = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        pair = table[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(pair[delta:], pair[:-delta] @ rotation.T, atol=1e-12)


def test_it_is_added_to_every_sequence_and_has_no_last_position(rng):
    x = rng.normal(size=(2, 3, 4))
    y, cache = sinusoidal_positions_forward(x, 10**6)
    np.testing.assert_allclose(y - x, np.broadcast_to(encoding(3, 4, 10**6), x.shape), atol=1e-15)
    assert sinusoidal_positions_forward(x.astype(np.float32), 10**6)[0].dtype == np.float32
    assert np.array_equal(sinusoidal_positions_backward(x, cache)[0], x)


def test_learned_rows_are_added_and_their_gradient_sums_over_the_batch(rng):
    x, table, dy = rng.normal(size=(2, 3, 4)), rng.normal(size=(9, 4)), rng.normal(size=(2, 3, 4))
    y, cache = learned_positions_forward(x, table, 2)
    dx, dtable = learned_positions_backward(dy, cache)
    expected = np.zeros_like(table)
    for b, t in np.ndindex(2, 3):
        assert y[b, t] == pytest.approx(x[b, t] + table[t + 2], rel=1e-14)
        expected[t + 2] += dy[b, t]
    np.testing.assert_array_equal(dx, dy)
    np.testing.assert_allclose(dtable, expected, rtol=1e-14)
