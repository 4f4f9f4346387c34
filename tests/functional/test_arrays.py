"""The helpers of the pairs: namespaces, real parts, rows, and what their errors say."""

import array_api_strict as strict
import numpy as np
import pytest

from npformer.errors import DTypeError, ShapeError
from npformer.functional.arrays import as_rows, expect_integers, expect_shape, namespace, real_part


def test_the_namespace_is_that_of_the_array():
    assert namespace(strict.asarray([1.0])) is strict
    assert namespace(np.ones(2)).asarray([1.0]).__class__ is np.ndarray


def test_the_real_part_of_a_real_array_is_itself():
    x = np.ones(3)
    assert real_part(x) is x
    assert real_part(np.array([1 + 2j])).tolist() == [1]
    assert real_part(np.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("shape", "rows"), [((4,), 1), ((3, 4), 3), ((2, 3, 4), 6), ((0, 3, 4), 0)])
def test_rows_are_tokens(shape, rows):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    assert as_rows(x).shape == (rows, 4)
    assert as_rows(x).ravel().tolist() == x.ravel().tolist()


def test_a_wrong_shape_is_named_in_letters_and_numbers():
    expect_shape("beta", np.ones((2, 3)), "(B, C)", 2, 3)
    with pytest.raises(ShapeError, match=r"beta: expected \(B, C\) = \(2, 3\), got \(3, 2\)"):
        expect_shape("beta", np.ones((3, 2)), "(B, C)", 2, 3)


def test_floats_are_no_token_ids():
    expect_integers("tokens", np.arange(3, dtype=np.uint8))
    with pytest.raises(DTypeError, match=r"tokens: expected integers \(token ids\), got float64; convert with astype"):
        expect_integers("tokens", np.ones(3))
    with pytest.raises(DTypeError, match="got bool"):
        expect_integers("tokens", np.ones(3, dtype=bool))
