"""Encoding sources: threads share the rows, and each product uses one thread meanwhile."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.backend.numpy.blas import blas_threads, can_set_blas_threads
from npformer.engine import fused_decode as module


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
    memory, _ = module.encode(small_model(replace(on, engine=replace(on.engine, least_part=least))), batch[0])
    assert len(read) == parts
    expected, _ = small_model(replace(on, engine=None)).encode(batch[0])
    np.testing.assert_allclose(memory, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("place", ["class", "model"])
def test_a_model_with_a_start_of_its_own_does_as_that_says(place, small_model, batch):
    model = small_model(get_backend("numpy", dtype="float64"))
    expected = module.start(model, batch[0], 8).layers[0].memory.keys
    start = type(model).start

    def backwards(model, src, max_len, **options):
        return start(model, src[:, ::-1].copy(), max_len, **options)

    if place == "class":
        model.__class__ = type("Backwards", (type(model),), {"start": backwards})
    else:
        model.start = lambda src, max_len: backwards(model, src, max_len)
    keys = module.start(model, batch[0], 8).layers[0].memory.keys
    np.testing.assert_allclose(keys, start(model, batch[0][:, ::-1].copy(), 8).layers[0].memory.keys, atol=1e-12)
    assert not np.allclose(keys, expected)
