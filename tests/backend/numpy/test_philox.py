"""NumPy's own Philox draws the plain bits, whole or for some rows of a batch, on any thread."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from npformer.backend.numpy.philox import CHUNK, kept
from npformer.backend.numpy.philox import philox_bits as fast_bits
from npformer.functional import Draw, philox_bits
from npformer.functional.dropout import dropout_threshold


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 16, 17, 4099])
def test_bits_are_equal(size):
    rng = np.random.default_rng(size)
    for _ in range(5):
        seed, step, micro, site = (int(n) for n in rng.integers(0, 2**64, size=4, dtype=np.uint64))
        draw = Draw(seed, step, micro, site, 0.1)
        fast = fast_bits(draw, size, np.ones(1))
        assert fast.shape == (size,)
        assert np.array_equal(fast, philox_bits(draw, size, np.ones(1)))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (0, 4), (2, 3, 7), (5, CHUNK // 4 + 3), (2, CHUNK)], ids=str)
@pytest.mark.parametrize("first_row", [0, 1, 3])
def test_the_kept_mask_equals_that_of_the_plain_bits(shape, first_row):
    draw = Draw(2**64 - 1, 7, 2**63, 5, 0.37, first_row if shape[0] else 0)
    keep, scale = kept(draw, np.empty(shape, np.float32))
    threshold, true_scale = dropout_threshold(0.37)
    like = np.empty(shape)
    assert keep.dtype == bool
    assert scale == true_scale
    assert np.array_equal(keep, philox_bits(draw, like.size, like).reshape(shape) >= threshold)


def test_threads_do_not_disturb_each_other():
    draws = [Draw(1, 2, 3, site, 0.5) for site in range(64)]
    like = np.empty(2 * CHUNK)
    alone = [kept(draw, like)[0] for draw in draws]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda draw: kept(draw, like)[0], draws))
    assert all(map(np.array_equal, alone, together))
