"""The compiled choice of the hypotheses that continue, against the plain one of ``decoding/choice.py``."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.decoding import choice
from npformer.engine.numba.beam_choice import NOBODY, Beams, choose

PLAIN = get_backend("numpy", dtype="float64", kernels="plain")
PAD = 9


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


def chosen(logits, log_p, greedy, room):
    """Rows, tokens and totals (n, w), and the new greedy; and the same by the plain choice."""
    k, rows = min(int(room.max()), logits.shape[1]), log_p.size
    room = np.minimum(room, log_p.shape[1])  # as in a record: no hypothesis needs a slot that there is not
    working = np.empty((rows, k), np.int64), np.empty((rows, k), logits.dtype), np.empty(rows)
    found = np.empty(log_p.shape, np.int64), np.empty(log_p.shape, np.int64), np.empty(log_p.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = choice.choose(logits.astype(np.float64), log_p, greedy, room, PAD, PLAIN)
        newest = greedy.copy()
        choose(logits, Beams(log_p, room, newest, *working), PAD, *found)
    return (*found, newest), expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("w", [1, 4, 7])
@pytest.mark.parametrize("vocab_size", [2, 300])
@pytest.mark.parametrize("spoilt", [None, np.nan, np.inf, -np.inf])
def test_it_is_the_plain_choice(seed, w, vocab_size, spoilt, dtype):
    logits, *others = beams(seed, 5, w, w, vocab_size)
    if spoilt is not None:
        logits[np.random.default_rng(seed).random(logits.shape) < 0.3] = spoilt
    for one, other in zip(*chosen(logits.astype(dtype), *others), strict=True):
        assert one.dtype == other.dtype
        assert np.allclose(one, other, rtol=0, atol=1e-12 if dtype == "float64" else 1e-5)
