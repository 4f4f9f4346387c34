"""The likeliest tokens against a full sort, of vocabularies that are and are not whole numbers of parts."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.backend import Backend, get_backend
from npformer.backend.numpy import compiled_problem
from npformer.decoding.best_tokens import PART, best_tokens


@pytest.fixture
def compiled64() -> Backend:
    problem = compiled_problem()
    if problem is not None:
        pytest.skip(problem)
    return get_backend("numpy", dtype="float64", bodies="compiled")


@pytest.mark.parametrize("name", ["numpy64", "strict64", "compiled64"])
@pytest.mark.parametrize("vocab_size", [3, 9, 8 * PART, 8 * PART + 1, 20 * PART, 1000])
@pytest.mark.parametrize("levels", [1, 5, 10**6])
def test_they_are_those_of_a_full_sort(levels: int, vocab_size: int, name: str, request: pytest.FixtureRequest) -> None:
    backend: Backend = request.getfixturevalue(name)
    logits = np.random.default_rng(vocab_size).integers(0, levels, (6, vocab_size)) / levels * 9 + 500
    tokens, log_p = best_tokens(backend.array(logits), 4, backend)
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :4]  # of equally likely ones the first
    assert tokens.tolist() == expected.tolist()
    p = np.exp(logits - 500) / np.exp(logits - 500).sum(axis=1, keepdims=True)
    assert np.allclose(log_p, np.log(np.take_along_axis(p, expected, axis=1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["numpy64", "compiled64"])
def test_what_is_no_number_comes_last(name: str, request: pytest.FixtureRequest) -> None:
    backend: Backend = request.getfixturevalue(name)
    logits = np.array([[1.0, np.nan, 3.0, 2.0, 0.0], [5.0, 4.0, 4.0, 4.0, 1.0], [np.nan] * 5])
    with np.errstate(invalid="ignore"):
        tokens, log_p = best_tokens(logits, 3, backend)
    assert tokens.tolist() == [[2, 3, 0], [0, 1, 2], [0, 1, 2]]
    assert np.isnan(log_p).any(axis=1).tolist() == [True, False, True]


def test_compiled_ones_are_taken_where_all_is_finite(compiled64: Backend) -> None:
    assert compiled64.best_tokens is not None
    logits = np.random.default_rng(0).normal(size=(5, 300))
    for dtype, tolerance in (("float64", 1e-13), ("float32", 2e-6)):
        found = compiled64.best_tokens(logits.astype(dtype), 7)
        assert found is not None
        tokens, log_p = best_tokens(logits.astype(dtype), 7, get_backend("numpy", dtype="float64", bodies="plain"))
        assert np.array_equal(found[0], tokens)
        assert np.allclose(found[1], log_p, rtol=0, atol=tolerance)
    for number in (np.nan, np.inf, -np.inf):
        spoilt = np.where(np.arange(5) < 3, logits[:, :5], number)
        assert compiled64.best_tokens(spoilt, 4) is None
    assert compiled64.best_tokens(logits.T, 2) is None
    hidden = np.where(np.arange(300) < 200, logits, -np.inf)  # what nobody would choose
    found = compiled64.best_tokens(hidden, 4)
    assert found is not None
    assert np.allclose(found[1], best_tokens(hidden[:, :200].copy(), 4, compiled64)[1], rtol=0, atol=1e-13)
