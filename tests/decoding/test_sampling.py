"""Sampling: the distribution, the frequencies, and that a row's draws do not depend on the other rows."""

import numpy as np
import pytest

from npformer.decoding import greedy, sample
from npformer.decoding.sampling import drawn, probabilities
from tests.decoding.conftest import SRC, whole

P = np.array([[0.4, 0.1, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, P**2 / np.sum(P**2, axis=1, keepdims=True)),
        ({"top_k": 2}, [[4 / 7, 0, 3 / 7, 0], [0.5, 0.5, 0, 0]]),
        ({"top_p": 0.69}, [[4 / 7, 0, 3 / 7, 0], [1 / 3, 1 / 3, 1 / 3, 0]]),
        ({"top_p": 0.5}, [[4 / 7, 0, 3 / 7, 0], [0.5, 0.5, 0, 0]]),  # two of four equals are exactly enough
        ({"top_p": 1e-9}, [[1, 0, 0, 0], [1, 0, 0, 0]]),
        ({"top_k": 3, "top_p": 0.75}, [[4 / 7, 0, 3 / 7, 0], [1 / 3, 1 / 3, 1 / 3, 0]]),  # a share of what is left
        ({"temperature": 1e-310}, [[1, 0, 0, 0], [0.25] * 4]),
    ],
)
def test_the_distribution_that_is_sampled(options, expected):
    assert np.allclose(probabilities(np.log(P) + 700, **options), expected, rtol=0, atol=1e-12)


def test_a_uniform_number_picks_the_token_whose_interval_contains_it():
    p = np.array([[0.25, 0.0, 0.5, 0.25]])
    picked = {u: int(drawn(p, np.array([u]))[0]) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, np.nextafter(1, 0))}
    assert list(picked.values()) == [0, 0, 2, 2, 3, 3]
    assert drawn(np.array([[0.0, 0.0, 1.0, 0.0]]), np.array([np.nextafter(1, 0)])).tolist() == [2]


def test_tokens_come_as_often_as_is_likely(transformer, numpy64):
    model, n = transformer(numpy64), 4000
    src = np.repeat(SRC[:1], n, axis=0)
    p = probabilities(model(SRC[:1], [[1]])[:, -1], 0.7, 6, 0.95)[0]
    counts = np.bincount(sample(model, src, 1, temperature=0.7, top_k=6, top_p=0.95)[:, 0], minlength=9)
    possible = p > 0
    assert 1 < possible.sum() < 7
    assert not counts[~possible].any()
    chi_squared = np.sum((counts[possible] - n * p[possible]) ** 2 / (n * p[possible]))
    assert chi_squared < 25  # at most 5 degrees of freedom: 1 in 7000


def test_a_seed_draws_the_same_and_another_something_else(transformer, any64):
    model = transformer(any64)
    one, again, other = (sample(model, SRC, 12, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one, again)
    assert one.shape != other.shape or (one != other).any()


def test_a_row_draws_as_it_does_alone(transformer, decoder, numpy64):
    for model in (transformer(numpy64), decoder(numpy64), decoder(numpy64, attention="linear", positions="rotary")):
        together = sample(model, SRC, 12, top_p=0.9)
        for row in (0, 1, 2):
            alone = sample(model, [[t for t in SRC[row] if t]], 12, top_p=0.9)
            assert whole(together[row]) == whole(alone[0])
        assert whole(sample(model, SRC[[2, 1]], 12, top_p=0.9)[0]) == whole(together[2])


def test_the_likeliest_token_alone_is_greedy_decoding(transformer, any64):
    model = transformer(any64)
    for options in ({"top_k": 1}, {"temperature": 1e-9}, {"top_p": 1e-9}):
        assert np.array_equal(sample(model, SRC, 10, **options), greedy(model, SRC, 10))
