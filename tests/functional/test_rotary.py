"""RoPE: points rotated by hand, and scores that depend only on distances."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError
from npformer.functional import rotary_backward, rotary_forward

Host = np.ndarray[Any, Any]


def test_values_point_by_point(rng):
    x = rng.normal(size=(2, 3, 6))
    y, _ = rotary_forward(x, 4, 100.0)
    for b, t, i in np.ndindex(2, 3, 3):
        turned = complex(*x[b, t, 2 * i : 2 * i + 2]) * np.exp(1j * (4 + t) * 100.0 ** (-2 * i / 6))
        assert y[b, t, 2 * i] == pytest.approx(turned.real, rel=1e-12)
        assert y[b, t, 2 * i + 1] == pytest.approx(turned.imag, rel=1e-12)


def test_scores_depend_on_the_distance_alone(rng):
    q, k = rng.normal(size=(1, 8)), rng.normal(size=(1, 8))

    def score(at_query: int, at_key: int) -> float:
        return float(np.sum(rotary_forward(q, at_query)[0] * rotary_forward(k, at_key)[0]))

    for distance in (0, 1, 7):
        near = score(distance, 0)
        for start in (3, 100, 5000):
            assert score(start + distance, start) == pytest.approx(near, abs=1e-11)
        by_key = float(np.sum(q * rotary_forward(k, distance)[0]))  # qᵀ R_(j−t) k
        assert score(3, 3 + distance) == pytest.approx(by_key, abs=1e-12)
    assert abs(score(1, 0) - score(7, 0)) > 1e-3


def test_a_sequence_from_its_middle_is_the_same_sequence(rng):
    x = rng.normal(size=(2, 3, 9, 4))
    whole, _ = rotary_forward(x)
    np.testing.assert_array_equal(rotary_forward(x[:, :, 5:], 5)[0], whole[:, :, 5:])
    np.testing.assert_array_equal(whole[:, :, 0], x[:, :, 0])  # nothing turns at position 0


def test_lengths_stay_and_the_gradient_turns_back(rng):
    x = rng.normal(size=(3, 5, 6))
    y, cache = rotary_forward(x, 2)
    np.testing.assert_allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-13)
    (back,) = rotary_backward(y, cache)
    np.testing.assert_allclose(back, x, rtol=1e-12, atol=1e-14)


def test_far_positions_in_float32_are_turned_by_the_angle_of_float64(rng):
    x = rng.normal(size=(4, 8))
    exact, _ = rotary_forward(x, 100_000)
    rough, _ = rotary_forward(x.astype(np.float32), 100_000)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, exact, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "start", "base", "error", "text"),
    [
        ((3, 5), 0, 1e4, ShapeError, "x: expected (..., T, D) with an even D, since columns turn in pairs, got (3, 5)"),
        ((4,), 0, 1e4, ShapeError, "x: expected (..., T, D) with an even D, since columns turn in pairs, got (4,)"),
        ((3, 4), -1, 1e4, ConfigError, "start: expected an integer >= 0, got -1"),
        ((3, 4), 0, 0.0, ConfigError, "base: expected a number > 0, got 0.0"),
        ((3, 4), 0, math.nan, ConfigError, "base: expected a number > 0, got nan"),
    ],
)
def test_arrays_that_cannot_be_rotated(shape, start, base, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        rotary_forward(np.ones(shape), start, base)
