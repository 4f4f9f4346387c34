"""The host as a device: copies in, views out, zeros on cache lines."""

import numpy as np
import pytest

from npformer.backend import NumpyDevice


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (0, 4), (1000, 17)])
def test_zeros_start_on_a_cache_line(dtype, shape):
    for x in [NumpyDevice().zeros(shape, dtype) for _ in range(5)]:
        assert x.shape == shape
        assert x.dtype == dtype
        assert x.ctypes.data % 64 == 0 or x.size == 0
        assert x.flags.c_contiguous
        assert x.flags.writeable
        assert not x.any()
        x[...] = 1
        assert x.all()


def test_arrays_in_are_copies_and_out_are_views():
    device, x = NumpyDevice(), np.arange(3.0)
    copy = device.array(x, "float64")
    assert not np.shares_memory(copy, x)
    assert np.shares_memory(device.host(copy), copy)
    assert device.array(x, "float32").dtype == np.float32
    device.synchronize()
