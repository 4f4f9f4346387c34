"""Dropout: the threshold, the mean, the mask that backward must reuse, and how often a number is kept."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from npformer.functional import Draw, dropout_backward, dropout_forward, philox_bits
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


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.7])
def test_the_share_that_is_kept_and_the_mean(rate):
    size = 400_000
    y, _ = dropout_forward(np.ones(size), DRAW._replace(rate=rate), philox_bits)
    keep = 1 / dropout_threshold(rate)[1]
    deviation = math.sqrt(keep * (1 - keep) / size)
    assert abs(np.mean(y != 0) - keep) < 4 * deviation
    assert abs(y.mean() - 1) < 4 * deviation / keep


@pytest.mark.parametrize("change", [{"seed": 6}, {"step": 3}, {"micro": 2}, {"site": 98}])
def test_masks_of_other_seeds_steps_and_places_are_independent(change):
    ones = np.ones(100_000)
    one, other = (dropout_forward(ones, draw)[0] != 0 for draw in (DRAW, DRAW._replace(**change)))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(100_000)
    assert np.array_equal(one, dropout_forward(ones, DRAW)[0] != 0)
