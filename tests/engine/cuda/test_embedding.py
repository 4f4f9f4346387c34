"""Token embedding on a GPU: its gradient is summed in the order of the tokens, whichever thread is first."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.engine.cuda import cuda_ops
from npformer.engine.cuda.embedding import CHUNK
from tests.backend.test_kernels import TABLES

#: And many tokens of few rows, whole chunks of a row, and whole chunks of many.
CASES = [*TABLES, (3, (5, 100)), (1, (CHUNK,)), (1, (5 * CHUNK,)), (2, (3, CHUNK)), (400, (2, CHUNK))]


def tokens_of(num_rows, shape):
    """A third of them 0, as padding is."""
    rng = np.random.default_rng(1)
    return rng.integers(0, num_rows, size=shape) * (rng.random(shape) > 0.33)


@pytest.mark.parametrize(("num_rows", "shape"), CASES)
def test_it_equals_the_plain_pair(agree, dtype, num_rows, shape):
    tokens, rng = tokens_of(num_rows, shape), np.random.default_rng(0)
    for width in (1, 33):
        weight = rng.normal(size=(num_rows, width)).astype(dtype)
        assert agree("embedding", tokens, weight, 1.5)
    assert agree("embedding", tokens.astype(np.uint8 if num_rows < 256 else np.int16), weight)
    assert agree("embedding", np.repeat(tokens, 2, axis=-1)[..., ::2], np.asfortranarray(weight), -0.5)


@pytest.mark.parametrize("where", ["one row", "every edge", "sorted", "reversed"])
def test_rows_across_the_edges_of_chunks(table, dtype, where):
    count = 6 * CHUNK + 3
    places = np.arange(count)
    tokens = {"one row": places * 0 + 2, "every edge": (places + CHUNK // 2) // CHUNK, "sorted": places // 5,
              "reversed": places[::-1] // 40}[where]  # fmt: skip
    height = int(tokens.max()) + 2
    dy = (np.random.default_rng(0).integers(-64, 65, size=(count, 7)) / 16).astype(dtype)  # sums are exact
    _, cache = table.embedding.forward(tokens, np.zeros((height, 7), dtype), 0.5)
    total = np.full((height, 7), 3, dtype)
    assert table.embedding.backward(dy, cache, into=(total,)) is None
    true = np.full((height, 7), 3, dtype)
    np.add.at(true, tokens, dy / 2)
    np.testing.assert_array_equal(total, true)


def test_sums_are_made_in_the_order_of_the_tokens(runtime, table, dtype):
    """The same bits for every number of threads; and in chunks of CHUNK tokens of a row's own, where it fills them."""
    tokens = np.array([1] * CHUNK + [0] * CHUNK)
    dy = np.random.default_rng(0).normal(size=(2 * CHUNK, 5)).astype(dtype)
    _, cache = table.embedding.forward(tokens, np.zeros((2, 5), dtype))
    found = table.embedding.backward(dy, cache)
    in_order = [np.add.accumulate(part)[-1] for part in (dy[CHUNK:], dy[:CHUNK])]  # not np.sum, which adds in pairs
    np.testing.assert_array_equal(found, in_order)
    alone = cuda_ops(type(runtime)(block=1)).embedding
    many = tokens_of(6, (200,))
    big = np.random.default_rng(2).normal(size=(200, 5)).astype(dtype)
    weight = np.zeros((6, 5), dtype)
    both = [pair.backward(big, pair.forward(many, weight)[1]) for pair in (table.embedding, alone)]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
@pytest.mark.parametrize("stop", [11, 29], ids=["in one chunk", "across an edge"])
def test_a_token_outside_the_table_is_seen_and_writes_nowhere(table, bad, stop):
    tokens, weight = np.arange(3 * CHUNK) % 5, np.random.default_rng(0).normal(size=(5, 4))
    tokens[7:stop] = bad
    y, cache = table.embedding.forward(tokens, weight, 2.0)
    assert np.isnan(y[7:stop]).all()
    inside = (tokens >= 0) & (tokens < 5)
    np.testing.assert_array_equal(y[inside], 2 * weight[tokens[inside]])
    dy = np.random.default_rng(1).normal(size=y.shape)
    plain = PLAIN.embedding.forward(tokens[inside], weight, 2.0)[1]
    around = np.zeros((7, 4))  # numbers on either side: what is added to NaN, as it lies around arrays, leaves no trace
    table.embedding.backward(dy, cache, into=(around[1:6],))
    assert not around[[0, 6]].any()
    np.testing.assert_allclose(around[1:6], PLAIN.embedding.backward(dy[inside], plain), rtol=0, atol=1e-12)
