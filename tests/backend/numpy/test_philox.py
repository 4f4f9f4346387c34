"""NumPy's own Philox keeps what the plain bits keep, in a whole batch or some of its rows, on any thread."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from npformer.backend.numpy.philox import CHUNK, kept
from npformer.functional import Draw, philox_bits
from npformer.functional.dropout import dropout_threshold


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
