"""Adam in every table: the formula of optim/adam.py, exact zeros that stay, no denormal numbers, NaN seen."""

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.backend.select import numba_problem
from npformer.engine.cuda.adam import DeviceUpdates
from npformer.engine.numpy_adam import BLOCK
from npformer.layers import Parameter
from npformer.optim import AdamW
from tests.engine.cuda import host_runtime

BETAS, EPS = (0.9, 0.98), 1e-9


@pytest.fixture(params=["numpy", "numba", "cuda"])
def adam_update(request):
    """adam_update(p, g, m, v, lr, betas, eps, t, decay) of each table in turn; decay is lr·λ."""
    problem = {"numba": numba_problem, "cuda": host_runtime.compiler_problem}.get(request.param, lambda: None)()
    if problem is not None:
        pytest.skip(problem)
    if request.param != "cuda":
        update = get_backend("numpy", kernels=request.param).engine.adam_update
        assert update is not None
        return update
    return DeviceUpdates(host_runtime.HostRuntime(block=40, backwards=True), np.asarray).by_host_numbers


def plain_update(p, g, m, v, lr, betas, eps, t, decay):
    """The formula of ``optim/adam.py``, by that file."""
    backend = get_backend("numpy", dtype=str(p.dtype), kernels="plain", threads=1)
    parameter = Parameter("p", p.copy().reshape(1, p.size))  # a matrix, which decays
    optimizer = AdamW(Arena([("p", parameter, ())], backend), lr=lr, betas=betas, eps=eps, weight_decay=decay)
    size = slice(0, p.size)
    optimizer.arena.grads[size], optimizer.m[size], optimizer.v[size] = g, m, v
    optimizer.t = t - 1
    optimizer.step(lr)
    p[...], m[...], v[...] = parameter.data[0], optimizer.m[size], optimizer.v[size]


@pytest.mark.parametrize("size", [0, 1, 5, 1000, BLOCK + 1, 3 * BLOCK - 7])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_the_plain_formula(adam_update, dtype, size, decay):
    rng = np.random.default_rng(0)
    fast = tuple(flat.astype(dtype) for flat in (*rng.normal(size=(3, size)), rng.random(size)))
    plain = tuple(flat.copy() for flat in fast)
    bound = {"float32": 1e-6, "float64": 1e-13}[dtype]
    for t in (1, 2, 3, 1000):
        fast[1][...] = plain[1][...] = rng.normal(size=size) * 10.0 ** rng.uniform(-6, 3, size=size)
        adam_update(*fast, 0.01 / t, BETAS, EPS, t, 0.01 / t * decay)
        plain_update(*plain, 0.01 / t, BETAS, EPS, t, decay)
        for f, p in zip(fast, plain, strict=True):
            np.testing.assert_allclose(f, p, rtol=bound, atol=bound * np.max(np.abs(p), initial=0))
    assert all(flat.dtype == dtype for flat in fast)


@pytest.mark.parametrize("betas", [BETAS, (0.5, 0.6), (0.0, 0.0), (0.99, 0.9999)])
def test_moments_that_decay_are_never_denormal(adam_update, dtype, betas):
    smallest = np.finfo(dtype).smallest_normal
    sizes = 10.0 ** -np.arange(0, 46 if dtype == "float32" else 330, 0.5)
    p, g, m, v = (np.zeros(sizes.size, dtype) for _ in range(4))
    m[...], v[...] = sizes, sizes[::-1]
    m[::2] *= -1
    for t in range(1, 200):
        adam_update(p, g, m, v, 1e-3, betas, EPS, t, 0.0)
        for moment in (m, v):
            assert np.all((moment == 0) | (np.abs(moment) >= smallest)), t
    assert np.isfinite(p).all()


@pytest.mark.parametrize("adam_update", ["numba", "cuda"], indirect=True)
def test_moments_that_decay_become_0(adam_update, dtype):
    """But for NumPy's, which may stay at the smallest number that it knows."""
    p, g, m, v = np.ones(8, dtype), 10.0 ** np.arange(-6, 2).astype(dtype), np.zeros(8, dtype), np.zeros(8, dtype)
    for t in range(1, 600):  # 0.8⁶⁰⁰ is 1e-58
        adam_update(p, g, m, v, 1e-3, (0.5, 0.8), EPS, t, 0.0)
        g[:] = 0
    assert not m.any()
    assert not v.any()
    assert np.isfinite(p).all()


def test_parameters_without_a_gradient_are_unchanged(adam_update, dtype):
    p, g, m, v = np.array([0.0, 3.0, -1e-20, 0.0], dtype), *(np.zeros(4, dtype) for _ in range(3))
    before = p.copy()
    for t in range(1, 50):
        adam_update(p, g, m, v, 0.1, BETAS, EPS, t, 0.0)
    assert np.array_equal(p, before)
    assert not m.any()
    assert not v.any()


@pytest.mark.parametrize(
    ("adam_update", "tiny"), [("numpy", 1e-15), ("numba", 1e-14), ("cuda", 1e-14)], indirect=["adam_update"]
)
def test_a_tiny_gradient_still_moves_its_parameter(adam_update, dtype, tiny):
    """By the full step: what is flushed to 0 is far below any effect."""
    p, g, m, v = np.zeros(3, dtype), np.array([tiny, -tiny, 0], dtype), np.zeros(3, dtype), np.zeros(3, dtype)
    adam_update(p, g, m, v, 0.1, BETAS, 1e-20, 1, 0.0)
    np.testing.assert_allclose(p, [-0.1, 0.1, 0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy's own, of ∞/∞
@pytest.mark.parametrize("value", [np.nan, np.copysign(np.nan, -1.0), np.inf, -np.inf])
def test_a_nan_gradient_stays_visible_and_spreads_no_further(adam_update, dtype, value):
    p, g, m, v = np.ones(33, dtype), np.ones(33, dtype), np.zeros(33, dtype), np.zeros(33, dtype)
    g[17] = value
    for t in range(1, 30):
        adam_update(p, g, m, v, 0.1, BETAS, EPS, t, 0.0)
        g[17] = 1
        for array in (p, m, v):
            assert np.array_equal(np.isfinite(array), np.arange(33) != 17) or (array is m and np.isinf(value))
        assert np.isnan(p[17])
