"""The hypotheses of a beam that continue: one source by plain rules; the likeliest tokens."""

import numpy as np
import pytest

from npformer.decoding.choice import NOBODY, PART, best_tokens, choose


def test_the_likeliest_go_on_the_greedy_one_first(numpy64):
    p = np.array([[0.05, 0.5, 0.3, 0.15], [0.1, 0.1, 0.7, 0.1], [0.25, 0.25, 0.25, 0.25]])
    log_p = np.log([[0.2, 0.8, 0.0]], where=np.array([[True, True, False]]), out=np.full((1, 3), NOBODY))
    rows, tokens, total, greedy = choose(np.log(p), log_p, np.array([0]), np.array([3]), 9, numpy64)
    # 0.2·0.5 is greedy, and stays; of 0.8·(0.7, 0.1, …) the first stays, and the next takes the empty place
    assert (rows.tolist(), tokens.tolist()) == ([[0, 1, 1]], [[1, 2, 0]])
    assert np.allclose(np.exp(total), [[0.1, 0.56, 0.08]], rtol=0, atol=1e-12)
    assert greedy.tolist() == [0]


@pytest.mark.parametrize("name", ["numpy64", "strict64"])
@pytest.mark.parametrize("vocab_size", [3, 8 * PART, 8 * PART + 1, 1000])
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
