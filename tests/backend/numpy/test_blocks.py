"""Vectors of one value: few are kept, however many lengths are requested."""

import numpy as np
import pytest

from npformer.backend.numpy import blocks
from npformer.backend.numpy.blocks import column_sums, filled


@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 65, 1000])
def test_a_vector_of_one_number(size):
    filled_block = filled(size, 0.25, np.dtype("float32"))
    assert filled_block.shape == (size,)
    assert filled_block.dtype == np.float32
    assert (filled_block == 0.25).all()
    assert filled_block.flags.c_contiguous
    assert not filled_block.flags.writeable


def test_two_thousand_lengths_leave_as_many_vectors_as_there_are_powers_of_two():
    blocks._filled.cache_clear()
    for rows in range(1, 2001):
        column_sums(np.ones((rows, 2), np.float32))
    assert blocks._filled.cache_info().currsize == 12  # 1, 2, 4, … 2048 numbers
