"""Vectors of one value: few are kept, however many lengths are requested."""

import numpy as np

from npformer.backend.numpy import blocks
from npformer.backend.numpy.blocks import column_sums


def test_two_thousand_lengths_leave_as_many_vectors_as_there_are_powers_of_two():
    blocks._filled.cache_clear()
    for rows in range(1, 2001):
        column_sums(np.ones((rows, 2), np.float32))
    assert blocks._filled.cache_info().currsize == 12  # 1, 2, 4, … 2048 numbers
