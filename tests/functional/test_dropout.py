"""Dropout: the threshold, the mean, the mask that backward must reuse, and how often a number is kept."""

from dataclasses import dataclass

import numpy as np
import pytest

from npformer.functional import Draw, dropout_backward, dropout_forward
from npformer.functional.dropout import dropout_threshold

DRAW = Draw(seed=5, step=2, micro=1, site=99, rate=0.25)


@dataclass
class GivenBits:
    """Bits that a test chooses, and a count of how often they were drawn."""

    values: list[int]
    calls: int = 0

    def __call__(self, draw, size, like):
        self.calls += 1
        return np.array(self.values[:size], dtype=np.uint16)


@pytest.mark.parametrize(
    ("rate", "threshold"),
    [(0.0, 0), (1 / 65536, 1), (0.1, 6554), (0.25, 16384), (0.5, 32768), (0.9, 58982), (65535 / 65536, 65535)],
)
def test_threshold_and_scale(rate, threshold):
    assert dropout_threshold(rate) == (threshold, 65536 / (65536 - threshold))


def test_bits_at_the_threshold_are_kept_and_bits_below_it_are_not():
    bits = GivenBits([16383, 16384, 0, 65535])
    y, cache = dropout_forward(np.array([[3.0, 3.0], [3.0, 3.0]]), DRAW, bits)
    assert y.tolist() == [[0, 4], [0, 4]]
    (dx,) = dropout_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), cache)
    assert dx.tolist() == [[0, 2 * 4 / 3], [0, 4 * 4 / 3]]
    assert bits.calls == 1  # backward draws nothing
