"""The witnesses against derivatives known from school."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.proof.oracles import along_directions, every_element
from npformer.proof.subject import subject

X = np.array([[0.3, -1.2], [2.0, 0.7]])
UPSTREAM = (np.array([[2.0, -1.0], [0.5, 3.0]]),)
SLOPE = UPSTREAM[0] * (np.exp(X) * np.sin(X) + np.exp(X) * np.cos(X))


@pytest.fixture
def curve() -> Any:
    def no_backward(*_: Any) -> None:
        raise AssertionError("a witness must not ask the accused")

    return subject((lambda x: (np.exp(x) * np.sin(x), None), no_backward), [X], {}, get_backend("numpy").device)


def test_the_complex_step_is_exact_and_central_differences_are_close(curve: Any) -> None:
    witness = every_element(curve, "x", UPSTREAM, use_complex=True)
    np.testing.assert_allclose(witness.by_complex, SLOPE, rtol=1e-15)
    np.testing.assert_allclose(witness.by_central, SLOPE, rtol=1e-9)
    assert witness.truth is witness.by_complex


def test_a_second_step_size_is_tried_where_the_witnesses_differ_and_nowhere_else(curve: Any) -> None:
    agreed = every_element(curve, "x", UPSTREAM, use_complex=True)
    assert np.array_equal(agreed.by_central_wide, agreed.by_central)
    x = np.array([2e-6, 1.0])  # h/2 and h reach across the kink of the first one

    def half(z: Any) -> Any:
        return np.where(z.real > 0, z, 0), None

    bent = subject((half, None), [x], {}, get_backend("numpy").device)
    witness = every_element(bent, "z", (np.ones(2),), use_complex=True)
    np.testing.assert_allclose(witness.by_complex, [1, 1], rtol=1e-15)
    np.testing.assert_allclose(witness.by_central, [0.7, 1], rtol=1e-9)
    np.testing.assert_allclose(witness.by_central_wide, [0.6, 1], rtol=1e-9)


def test_a_direction_gives_the_slope_along_it(curve: Any) -> None:
    directions = [np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([[0.5, 1.0], [3.0, 1.0]])]
    expected = [np.sum(SLOPE * direction) for direction in directions]
    witness = along_directions(curve, "x", directions, UPSTREAM, use_complex=True)
    np.testing.assert_allclose(witness.by_complex, expected, rtol=1e-14)
    np.testing.assert_allclose(witness.by_central, expected, rtol=1e-8)


def test_without_the_complex_step_the_nearer_difference_is_the_truth(curve: Any) -> None:
    witness = every_element(curve, "x", UPSTREAM, use_complex=False)
    np.testing.assert_allclose(witness.by_central_wide, SLOPE, rtol=1e-9)
    assert not np.array_equal(witness.by_central, witness.by_central_wide)
    assert witness.by_complex is None
    assert witness.truth is witness.by_central
