"""The embedding: rows by token, and gradients that add up where a token repeats."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.functional import embedding_backward, embedding_forward


def numpy_backward(dy, cache):
    """NumPy's kernel, which returns its one gradient as it is."""
    return (get_backend("numpy", dtype="float64", kernels="numpy").ops.embedding.backward(dy, cache),)


BACKWARDS = pytest.mark.parametrize("backward", [embedding_backward, numpy_backward], ids=["plain", "numpy"])


@BACKWARDS
def test_repeated_tokens_accumulate(rng, backward):
    tokens, table, dy = np.array([[3, 1, 3], [0, 3, 4]]), rng.normal(size=(6, 4)), rng.normal(size=(2, 3, 4))
    y, cache = embedding_forward(tokens, table, 2.5)
    (dtable,) = backward(dy, cache)
    expected = np.zeros((6, 4))
    for b, t in np.ndindex(2, 3):
        assert y[b, t] == pytest.approx(2.5 * table[tokens[b, t]], rel=1e-14)
        expected[tokens[b, t]] += 2.5 * dy[b, t]
    np.testing.assert_allclose(dtable, expected, rtol=1e-13)
    assert not dtable[[2, 5]].any()  # rows that nobody used


@BACKWARDS
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
def test_narrow_token_ids_do_not_wrap(rng, backward, dtype):
    tokens = np.array([1, 44, 127, 0], dtype=dtype)
    table, dy = rng.normal(size=(300, 3)), rng.normal(size=(4, 3))
    y, cache = embedding_forward(tokens, table)
    (dtable,) = backward(dy, cache)
    assert np.array_equal(y, table[tokens.astype(int)])
    assert np.array_equal(dtable[tokens.astype(int)], dy)
    assert np.count_nonzero(dtable.any(axis=1)) == 4


@BACKWARDS
def test_one_token_and_no_tokens(backward):
    table = np.arange(6.0).reshape(3, 2)
    y, cache = embedding_forward(np.array(2), table)
    assert y.tolist() == [4, 5]
    assert backward(np.ones(2), cache)[0].tolist() == [[0, 0], [0, 0], [1, 1]]
    y, cache = embedding_forward(np.empty((2, 0), dtype=int), table)
    assert y.shape == (2, 0, 2)
    assert not backward(y, cache)[0].any()
