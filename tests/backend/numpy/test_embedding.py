"""The embedding's gradient by sorting is bit-equal run after run, and touches only what was used."""

import numpy as np

from npformer.backend.numpy.embedding import embedding_backward
from npformer.backend.numpy.kernels import KERNELS


def test_two_runs_are_bit_equal_and_rows_that_were_not_used_are_not_touched():
    rng = np.random.default_rng(0)
    ids, table = rng.integers(3, 9, size=(4, 50)), rng.normal(size=(12, 6)).astype(np.float32)
    y, cache = KERNELS.embedding.forward(ids, table, 1.5)
    dy = rng.normal(size=y.shape).astype(np.float32)
    one, other = embedding_backward(dy, cache), embedding_backward(dy, cache)
    assert np.array_equal(one, other)
    total = np.full_like(table, np.nan)
    total[3:9] = 0
    assert KERNELS.embedding.backward(dy, cache, into=(total,)) is None
    assert np.array_equal(total[3:9], one[3:9])
    assert np.isnan(total[[0, 1, 2, 9, 10, 11]]).all()


def test_it_adds_into_a_transposed_table():
    """A table that is tied to the projection may be seen transposed."""
    rng = np.random.default_rng(0)
    ids, table = rng.integers(0, 5, size=(2, 7)), rng.normal(size=(5, 3))
    y, cache = KERNELS.embedding.forward(ids, table)
    total = np.ones((3, 5)).T
    KERNELS.embedding.backward(y, cache, into=(total,))
    np.testing.assert_allclose(total, 1 + embedding_backward(y, cache))
