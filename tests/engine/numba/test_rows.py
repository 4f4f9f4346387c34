"""Contiguous rows without needless copies, and gradients of parameters where they belong."""

import numpy as np
import pytest

from npformer.engine.numba.rows import as_rows, contiguous, contiguous_rows


def test_contiguous_copies_only_what_has_gaps():
    x = np.arange(24.0).reshape(2, 3, 4)
    assert contiguous(x) is x
    for gaps in (x[:, ::2], x.transpose(2, 0, 1), x[..., ::-1]):
        assert np.array_equal(contiguous(gaps), gaps)
        assert contiguous(gaps).flags.c_contiguous
    crooked = np.frombuffer(bytes(1) + x.tobytes(), dtype=np.uint8)[1:].view(x.dtype).reshape(x.shape)
    assert np.array_equal(contiguous(crooked), x)
    assert contiguous(crooked).flags.aligned
    assert contiguous_rows(x).shape == (6, 4)
    assert np.shares_memory(contiguous_rows(x), x)
    assert np.array_equal(contiguous_rows(x.transpose(2, 0, 1)), x.transpose(2, 0, 1).reshape(8, 3))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1, 1)])
def test_as_rows(shape):
    x = np.ones(shape)
    assert as_rows(x).shape == (int(np.prod(shape[:-1])), shape[-1])
    assert x.size == 0 or np.shares_memory(as_rows(x), x)
