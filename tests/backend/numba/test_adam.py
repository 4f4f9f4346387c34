"""Compiled Adam: the formula of optim/adam.py to rounding, no denormal numbers, and NaN stays visible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.layers import Parameter
from npformer.optim import AdamW

Host = np.ndarray[Any, Any]
EVERY_DTYPE = pytest.mark.parametrize("dtype", ["float32", "float64"])
BETAS, EPS = (0.9, 0.98), 1e-9


@pytest.fixture
def adam_update() -> Callable[..., None]:
    """The compiled update."""
    pytest.importorskip("numba")
    from npformer.backend.numba import adam_update

    return adam_update


@EVERY_DTYPE
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_fifty_steps_are_those_of_the_plain_formula(adam_update: Any, dtype: str, decay: float, size: int) -> None:
    rng = np.random.default_rng(0)
    start, runs = rng.normal(size=size), []
    for kernels in ("plain", "numba"):
        backend = get_backend("numpy", dtype, kernels=kernels, threads=1)
        parameter: Any = Parameter("p", backend.array(start.reshape(1, size)))
        optimizer = AdamW(Arena([("p", parameter, ())], backend), lr=0.01, betas=BETAS, eps=EPS, weight_decay=decay)
        gradients = np.random.default_rng(1)
        for t in range(50):
            parameter.grad[...] = gradients.normal(size=size) * 10.0 ** gradients.uniform(-6, 3, size=size)
            optimizer.step(0.01 / (1 + t))
        runs.append((parameter.data[0].copy(), optimizer.m[:size].copy(), optimizer.v[:size].copy()))
    bound = {"float32": 2e-5, "float64": 1e-13}[dtype]
    for plain, compiled in zip(*runs, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=bound, atol=bound * np.max(np.abs(plain)))
    assert adam_update is get_backend("numpy", dtype, kernels="numba").adam_update


@EVERY_DTYPE
def test_no_denormals_after_many_steps_without_gradient(adam_update: Any, dtype: str) -> None:
    smallest = np.finfo(dtype).smallest_normal
    p, g, m, v = np.ones(8, dtype), 10.0 ** np.arange(-6, 2).astype(dtype), np.zeros(8, dtype), np.zeros(8, dtype)
    adam_update(p, g, m, v, 1e-3, BETAS, EPS, 1, 0.0)
    g[:] = 0
    for t in range(2, 20_002):
        adam_update(p, g, m, v, 1e-3, BETAS, EPS, t, 0.0)
        if t % 100 == 0:
            for moment in (m, v):
                assert np.all((moment == 0) | (np.abs(moment) >= smallest)), t
    assert not m.any()
    assert not v.any()
    assert np.isfinite(p).all()


@EVERY_DTYPE
def test_a_tiny_gradient_still_moves_its_parameter(adam_update: Any, dtype: str) -> None:
    p, g, m, v = np.zeros(3, dtype), np.array([1e-14, -1e-14, 0], dtype), np.zeros(3, dtype), np.zeros(3, dtype)
    adam_update(p, g, m, v, 0.1, BETAS, 1e-20, 1, 0.0)
    np.testing.assert_allclose(p, [-0.1, 0.1, 0], rtol=1e-4)


@EVERY_DTYPE
@pytest.mark.parametrize("value", [np.nan, np.copysign(np.nan, -1.0), np.inf, -np.inf])
def test_a_gradient_that_is_no_number_stays_visible_and_alone(adam_update: Any, dtype: str, value: float) -> None:
    p, g, m, v = np.ones(33, dtype), np.ones(33, dtype), np.zeros(33, dtype), np.zeros(33, dtype)
    g[17] = value
    for t in range(1, 30):
        adam_update(p, g, m, v, 0.1, BETAS, EPS, t, 0.0)
        g[17] = 1
        for array in (p, m, v):
            assert np.array_equal(np.isfinite(array), np.arange(33) != 17) or (array is m and np.isinf(value))
        assert np.isnan(p[17])


@EVERY_DTYPE
def test_a_view_into_the_middle_of_an_arena(adam_update: Any, dtype: str) -> None:
    flats = [np.full(40, value, dtype) for value in (2, 3, 2, 2)]
    adam_update(*(flat[8:24] for flat in flats), 0.1, BETAS, EPS, 1, 0.01)
    for flat in (flats[0], *flats[2:]):
        assert np.all(flat[:8] == 2)
        assert np.all(flat[24:] == 2)
        assert np.all(flat[8:24] != 2)
