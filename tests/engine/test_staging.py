"""Inputs of a captured function: numbers in their order, the same again in their tree, and a key of all else."""

import numpy as np
import pytest

from npformer.engine.staging import flattened, with_arrays
from npformer.errors import ConfigError
from npformer.optim import Rates

ROWS = slice(0, 2)


def tree(number=3, rate=0.5, rows=ROWS, word="a", length=2):
    return [(number, Rates(rate, 1.0, 1.0)), [[(rows, rate)]], word, np.zeros((length,), np.int64)]


def test_numbers_are_taken_out_and_put_back():
    numbers, _ = flattened(tree(), "float32")
    expected = [np.uint64(3), np.array([0.5, 1.0, 1.0]), np.float32(0.5), np.zeros(2, np.int64)]
    for x, y in zip(numbers, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)
    (number, rates), [[(rows, share)]], word, ids = with_arrays(tree(), iter(numbers))
    assert (rows, word) == (ROWS, "a")
    assert all(x is y for x, y in zip((number, rates, share, ids), numbers, strict=True))


def test_a_key_depends_on_all_but_the_numbers():
    def key(**changes):
        return flattened(tree(**changes), "float32")[1]

    assert key() == key(number=9, rate=0.1)
    changes = [{"rows": slice(0, 3)}, {"word": "b"}, {"length": 3}]
    assert len({key(), *(key(**change) for change in changes)}) == 4
    assert flattened([1, [2]], "float32")[1] != flattened([[1], 2], "float32")[1]


@pytest.mark.parametrize(
    ("leaf", "got"),
    [(True, "the truth value True"), (np.False_, "the truth value False"), ({}, "dict"), (None, "None")],
)
def test_what_is_no_number_is_refused(leaf, got):
    with pytest.raises(ConfigError, match=f"expected numbers, arrays, slices, lists or tuples, got {got}"):
        flattened([leaf], "float32")
