"""Encoding sources: threads share the rows, and each product uses one thread meanwhile."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.backend.numpy.blas_threads import blas_threads, can_set_blas_threads
from npformer.runtime import fused_encode as module


def test_reading_the_source_leaves_no_threads_of_products_behind(small_model, batch, monkeypatch):
    """They would wait, in a loop, on the core of the thread that helps with the steps."""
    pytest.importorskip("numba")
    if not can_set_blas_threads():
        pytest.skip("this NumPy's BLAS cannot be told how many threads to use")
    seen, encode = [], module.fused_encode

    def noting(model, src):
        seen.append(blas_threads())
        return encode(model, src)

    monkeypatch.setattr(module, "fused_encode", noting)
    before = blas_threads()
    model = small_model(get_backend("numpy", dtype="float64", kernels="numba", threads=2))
    for rows, calls in ((batch[0][:1], 1), (batch[0], 2)):
        seen.clear()
        module.start(model, rows, 8)
        assert seen == [1] * calls, "rows are shared out, and products are not"
    assert blas_threads() == before


@pytest.mark.parametrize(("least", "parts"), [(1, 2), (10**6, 1)])
def test_sources_are_shared_out_where_that_pays(least, parts, small_model, batch, monkeypatch):
    read, encode = [], module.fused_encode
    monkeypatch.setattr(module, "fused_encode", lambda model, src: read.append(src) or encode(model, src))
    on = get_backend("numpy", dtype="float64", kernels="numpy", threads=2)
    memory, _ = module.encode(small_model(replace(on, least_part=least)), batch[0])
    assert len(read) == parts
    expected, _ = small_model(replace(on, threads=1)).encode(batch[0])
    np.testing.assert_allclose(memory, expected, rtol=0, atol=1e-12)
