"""NumPy's Adam: the plain formula, exact zeros that stay, and no denormal numbers ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.backend.numpy.adam import BLOCK, adam_update
from npformer.layers import Parameter
from npformer.optim import Adam

Host = np.ndarray[Any, Any]


def plain_update(
    flats: tuple[Host, ...], lr: float, betas: tuple[float, float], eps: float, t: int, decay: float
) -> None:
    """The formula of ``optim/adam.py``, by that file."""
    backend = get_backend("numpy", dtype=str(flats[0].dtype), kernels="plain", threads=1)
    parameter: Any = Parameter("p", flats[0].copy())
    optimizer = Adam(Arena([("p", parameter, ())], backend), lr=lr, betas=betas, eps=eps)
    size = slice(0, flats[0].size)
    optimizer.arena.grads[size], optimizer.m[size], optimizer.v[size] = flats[1:]
    optimizer.t = t
    optimizer._update(size, lr, decay)
    for flat, new in zip(flats, (parameter.data, flats[1], optimizer.m[size], optimizer.v[size]), strict=True):
        flat[...] = new


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("size", [0, 1, 5, BLOCK, BLOCK + 1, 3 * BLOCK - 7])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_it_is_the_plain_formula(dtype: str, bound: float, size: int, decay: float) -> None:
    rng = np.random.default_rng(0)
    fast = tuple(flat.astype(dtype) for flat in (*rng.normal(size=(3, size)), rng.random(size)))
    plain = tuple(flat.copy() for flat in fast)
    for t in (1, 2, 1000):
        adam_update(*fast, 0.01, (0.9, 0.98), 1e-9, t, decay)
        plain_update(plain, 0.01, (0.9, 0.98), 1e-9, t, decay)
        for f, p in zip(fast, plain, strict=True):
            np.testing.assert_allclose(f, p, rtol=bound, atol=bound)
    assert all(flat.dtype == dtype for flat in fast)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("betas", [(0.9, 0.98), (0.5, 0.6), (0.0, 0.0), (0.99, 0.9999)])
def test_moments_that_decay_become_0_and_never_denormal(dtype: str, betas: tuple[float, float]) -> None:
    smallest = np.finfo(dtype).smallest_normal
    sizes = 10.0 ** -np.arange(0, 46 if dtype == "float32" else 330, 0.5)
    p, g, m, v = (np.zeros(sizes.size, dtype) for _ in range(4))
    m[...], v[...] = sizes, sizes[::-1]
    m[::2] *= -1
    for t in range(1, 200):
        adam_update(p, g, m, v, 1e-3, betas, 1e-9, t, 0.0)
        for moment in (m, v):
            assert np.all((moment == 0) | (np.abs(moment) >= smallest))
    assert np.isfinite(p).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_never_had_a_gradient_stays_as_it_is(dtype: str) -> None:
    p, g, m, v = np.array([0.0, 3.0, -1e-20, 0.0], dtype), *(np.zeros(4, dtype) for _ in range(3))
    before = p.copy()
    for t in range(1, 50):
        adam_update(p, g, m, v, 0.1, (0.9, 0.98), 1e-9, t, 0.0)
    assert np.array_equal(p, before)
    assert not m.any()
    assert not v.any()


def test_the_flush_is_far_below_any_effect() -> None:
    """A gradient of 1e-15 still moves its parameter by the full step."""
    p, g, m, v = (np.zeros(1, np.float32) for _ in range(4))
    g[0] = 1e-15
    adam_update(p, g, m, v, 0.1, (0.9, 0.98), 1e-20, 1, 0.0)
    np.testing.assert_allclose(p, -0.1, rtol=1e-4)
