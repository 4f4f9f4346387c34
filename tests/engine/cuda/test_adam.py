"""Adam on a GPU: the formula of optim/adam.py, all runs of an arena in one kernel, and its gradient's length."""

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.engine.cuda import adam
from npformer.layers import Parameter
from npformer.optim import AdamW, clip_by_global_norm, global_norm

BETAS, EPS = (0.9, 0.98), 1e-9
BOUND = {"float32": 2e-5, "float64": 1e-13}


def rates_of(lr, t):
    return np.array([lr, 1 / (1 - BETAS[0] ** t), 1 / (1 - BETAS[1] ** t)])


def an_arena(dtype):
    """Matrices and vectors with gaps between them, one frozen, one slower, one longer than a block's stretch."""
    backend, rng = get_backend("numpy", dtype, kernels="plain"), np.random.default_rng(0)
    shapes = [(3, 5), (7,), (50, 101), (3,), (2, 2), (9,)]
    parameters = [Parameter(f"p{i}", backend.array(rng.normal(size=s))) for i, s in enumerate(shapes)]
    arena = Arena([(p.name, p, ()) for p in parameters], backend)
    arena.configure("p3", trainable=False)
    arena.configure("p4", lr_scale=0.25)
    return arena, parameters


def on_gpu(arena, weight_decay):
    return adam.Runs(*adam.runs_table(arena.runs(decaying=weight_decay > 0), weight_decay))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_twenty_steps_of_all_runs_at_once_are_those_of_the_plain_formula(runtime, dtype, decay):
    arena, parameters = an_arena(dtype)
    p, m, v = arena.values.copy(), np.zeros_like(arena.values), np.zeros_like(arena.values)
    optimizer, gradients = AdamW(arena, betas=BETAS, eps=EPS, weight_decay=decay), np.random.default_rng(1)
    for t in range(1, 21):
        for parameter in parameters:
            size = 10.0 ** gradients.uniform(-6, 3, size=parameter.grad.shape)
            parameter.grad[...] = gradients.normal(size=size.shape) * size
        rates = rates_of(0.01 / t, t)
        optimizer.step(0.01 / t)
        adam.adam_update(runtime, p, arena.grads, m, v, rates, BETAS, EPS, runs=on_gpu(arena, decay))
    for found, true in ((p, arena.values), (m, optimizer.m), (v, optimizer.v)):
        np.testing.assert_allclose(found, true, rtol=BOUND[dtype], atol=BOUND[dtype] * np.max(np.abs(true)))
    assert runtime.launched == ["adam.adam"] * 20


@pytest.mark.parametrize("size", [0, 1, 33, 11_000])
def test_a_length_by_exact_sums(runtime, monkeypatch, dtype, size):
    monkeypatch.setattr(adam, "SHARING", 2)  # blocks that each take several stretches
    g = (np.random.default_rng(0).integers(-64, 65, size=2 * size) / 16).astype(dtype)[:size]
    norm, _ = adam.gradient_norm(runtime, g, adam.Runs(np.array([[0, size]]), np.ones((1, 2))))
    assert norm.shape == ()
    assert norm == np.sqrt(np.sum(g * g))


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0, None])
def test_the_length_of_a_gradient_and_the_factor_that_clips_it(runtime, dtype, share):
    arena, parameters = an_arena(dtype)
    for parameter in parameters:
        parameter.grad[...] = np.random.default_rng(2).normal(size=parameter.grad.shape)
    length = float(global_norm(arena))
    longest = None if share is None else share * length
    before = arena.grads.copy()
    norm, shrink = adam.gradient_norm(runtime, before, on_gpu(arena, 0.0), longest)
    np.testing.assert_allclose(norm, length, rtol=BOUND[dtype])
    assert norm.dtype == dtype
    assert len(runtime.launched) == 2
    if longest is None:
        assert shrink is None
        return
    clip_by_global_norm(arena, longest)
    where = arena.segments[2]
    np.testing.assert_allclose(
        shrink * before[where.start : where.stop], arena.grads[where.start : where.stop], rtol=BOUND[dtype]
    )


def test_a_nan_norm_is_seen_and_nothing_is_divided_by_0(runtime, dtype):
    runs = adam.Runs(np.array([[0, 3000]]), np.ones((1, 2)))
    g = np.zeros(3000, dtype)
    assert adam.gradient_norm(runtime, g, runs, 1.0) == (0, 1)
    g[2500] = np.nan
    assert np.isnan(adam.gradient_norm(runtime, g, runs, 1.0)[0])
