"""The likeliest tokens against a full sort, of vocabularies that are and are not whole numbers of parts."""

import numpy as np
import pytest

from npformer.decoding.best_tokens import PART, best_tokens


@pytest.mark.parametrize("name", ["numpy64", "strict64"])
@pytest.mark.parametrize("vocab_size", [3, 9, 8 * PART, 8 * PART + 1, 20 * PART, 1000])
@pytest.mark.parametrize("levels", [1, 5, 10**6])
def test_they_are_those_of_a_full_sort(levels, vocab_size, name, request):
    backend = request.getfixturevalue(name)
    logits = np.random.default_rng(vocab_size).integers(0, levels, (6, vocab_size)) / levels * 9 + 500
    tokens, log_p = best_tokens(backend.array(logits), 4, backend)
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :4]  # of equally likely ones the first
    assert tokens.tolist() == expected.tolist()
    p = np.exp(logits - 500) / np.exp(logits - 500).sum(axis=1, keepdims=True)
    assert np.allclose(log_p, np.log(np.take_along_axis(p, expected, axis=1)), rtol=0, atol=1e-12)


def test_nan_comes_last(numpy64):
    logits = np.array([[1.0, np.nan, 3.0, 2.0, 0.0], [5.0, 4.0, 4.0, 4.0, 1.0], [np.nan] * 5])
    with np.errstate(invalid="ignore"):
        tokens, log_p = best_tokens(logits, 3, numpy64)
    assert tokens.tolist() == [[2, 3, 0], [0, 1, 2], [0, 1, 2]]
    assert np.isnan(log_p).any(axis=1).tolist() == [True, False, True]
