"""The hypotheses of a beam that continue: one source by plain rules, compiled against plain; the likeliest tokens."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.decoding.choice import NOBODY, PART, best_tokens, choose


@pytest.fixture
def compiled(dtype):
    pytest.importorskip("numba")
    return get_backend("numpy", dtype=dtype, kernels="numba")


def beams(seed, n, w, beam, vocab_size):
    """logits, log P, greedy and room of n sources; rows with equal numbers, and places that are empty."""
    rng = np.random.default_rng(seed)
    logits = rng.integers(0, 1 + 10 ** (seed % 3), (n * w, vocab_size)) / 3
    log_p = -rng.random((n, w))
    log_p[rng.random((n, w)) < 0.2] = NOBODY
    greedy = np.where(rng.random(n) < 0.3, -1, rng.integers(0, w, n))
    greedy[log_p[np.arange(n), greedy] == NOBODY] = -1
    alive = np.count_nonzero(log_p > NOBODY, axis=1)
    room = np.maximum(alive if w > 1 else 1, rng.integers(0, beam + 1, n))
    room[0] = beam
    return logits, log_p, greedy, room


def test_the_likeliest_go_on_the_greedy_one_first(numpy64):
    p = np.array([[0.05, 0.5, 0.3, 0.15], [0.1, 0.1, 0.7, 0.1], [0.25, 0.25, 0.25, 0.25]])
    log_p = np.log([[0.2, 0.8, 0.0]], where=np.array([[True, True, False]]), out=np.full((1, 3), NOBODY))
    rows, tokens, total, greedy = choose(np.log(p), log_p, np.array([0]), np.array([3]), 9, numpy64)
    # 0.2·0.5 is greedy, and stays; of 0.8·(0.7, 0.1, …) the first stays, and the next takes the empty place
    assert (rows.tolist(), tokens.tolist()) == ([[0, 1, 1]], [[1, 2, 0]])
    assert np.allclose(np.exp(total), [[0.1, 0.56, 0.08]], rtol=0, atol=1e-12)
    assert greedy.tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("w", "beam"), [(1, 4), (2, 4), (7, 7)])
@pytest.mark.parametrize("vocab_size", [2, 300])
@pytest.mark.parametrize("spoilt", [None, np.nan, np.inf, -np.inf])
def test_compiled_it_is_the_plain_choice(seed, w, beam, vocab_size, spoilt, compiled):
    logits, *others = beams(seed, 5, w, beam, vocab_size)
    if spoilt is not None:
        logits[np.random.default_rng(seed).random(logits.shape) < 0.3] = spoilt
    logits, plain = logits.astype(compiled.dtype), get_backend("numpy", dtype="float64", kernels="plain")
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = choose(logits.astype(np.float64), *others, 9, plain)
        choice = compiled.engine.beam_choice(logits, *others, expected[0].shape[1], 9)
    for one, other in zip(choice, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.allclose(one, other, rtol=0, atol=1e-12 if compiled.dtype == "float64" else 1e-5)


def test_of_equally_likely_ones_the_first_goes_on(compiled):
    logits, log_p = np.zeros((8, 6), compiled.dtype), np.array([[-1.0] * 4, [-1.0, NOBODY, -1.0, -1.0]])
    for backend in (compiled, get_backend("numpy", dtype=compiled.dtype, kernels="plain")):
        rows, tokens, _, greedy = choose(logits, log_p, np.array([1, -1]), np.array([4, 4]), 9, backend)
        assert rows.tolist() == [[0, 1, 0, 0], [4, 4, 4, 4]]
        assert tokens.tolist() == [[0, 0, 1, 2], [0, 1, 2, 3]]
        assert greedy.tolist() == [1, -1]


def test_a_compiled_kernel_is_used(compiled, monkeypatch):
    monkeypatch.setattr("npformer.decoding.choice.best_tokens", None)
    logits, *others = beams(0, 3, 4, 4, 20)
    rows, _, _, _ = choose(logits.astype(compiled.dtype), *others, 9, compiled)
    assert rows.shape == (3, 4)


def test_logits_in_another_order_are_left_to_numpy(compiled):
    logits, *others = beams(0, 3, 4, 4, 20)
    assert compiled.engine.beam_choice(np.asfortranarray(logits.astype(compiled.dtype)), *others, 4, 9) is None
    choice = choose(np.asfortranarray(logits.astype(compiled.dtype)), *others, 9, compiled)
    for one, other in zip(choice, choose(logits.astype(compiled.dtype), *others, 9, compiled), strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-5)


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
