"""RoPE: points rotated by hand, and scores that depend only on distances."""

import numpy as np
import pytest

from npformer.functional import rotary_forward


def test_values_point_by_point(rng):
    x = rng.normal(size=(2, 3, 6))
    y, _ = rotary_forward(x, 4, 100.0)
    for b, t, i in np.ndindex(2, 3, 3):
        turned = complex(*x[b, t, 2 * i : 2 * i + 2]) * np.exp(1j * (4 + t) * 100.0 ** (-2 * i / 6))
        assert y[b, t, 2 * i] == pytest.approx(turned.real, rel=1e-12)
        assert y[b, t, 2 * i + 1] == pytest.approx(turned.imag, rel=1e-12)


def test_far_positions_in_float32_are_turned_by_the_angle_of_float64(rng):
    x = rng.normal(size=(4, 8))
    exact, _ = rotary_forward(x, 100_000)
    rough, _ = rotary_forward(x.astype(np.float32), 100_000)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, exact, atol=1e-6)
