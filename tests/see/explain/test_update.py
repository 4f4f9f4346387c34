"""One number through clipping, the moments, their corrections and the update; all expected values by hand."""

import numpy as np
import pytest

import npformer as npf
from npformer.backend import Arena
from npformer.layers import Parameter
from npformer.see.explain.step import update_of

# Two parameters, (3, 4) and then (−0.2, 0.1); β = (½, ¾), lr 0.1, clipped to norm 1. All by hand:
#   1.  n = 5, factor 1/5, g = 0.6    m = 0.3     v = 0.09      m̂ = 0.6       v̂ = 0.36      step −0.1
#   2.  n < 1, factor 1,   g = −0.2   m = 0.05    v = 0.0775    m̂ = 1/15      v̂ = 31/175    step −0.1/15/√(31/175)
FIRST = {"gradient": 3, "norm": 5, "factor": 0.2, "clipped": 0.6, "m": 0.3, "v": 0.09, "m_hat": 0.6, "v_hat": 0.36,
         "change": -0.1, "uncorrected": -0.1}  # fmt: skip
SECOND = {"gradient": -0.2, "norm": 0.05**0.5, "factor": 1, "clipped": -0.2, "m": 0.05, "v": 0.0775, "m_hat": 1 / 15,
          "v_hat": 31 / 175, "change": -0.1 / 15 / (31 / 175) ** 0.5,
          "uncorrected": -0.1 * 0.05 / 0.0775**0.5}  # fmt: skip


def optimizer(kind=npf.Adam, **options):
    backend = npf.get_backend("numpy", dtype="float64", kernels="plain")
    arena = Arena([("w", Parameter("w", np.array([[1.0, 2.0]])), ())], backend)
    return kind(arena, lr=0.1, betas=(0.5, 0.75), eps=1e-15, **options)


def test_two_updates_by_hand():
    adam = optimizer()
    for gradients, expected in (((3, 4), FIRST), ((-0.2, 0.1), SECOND)):
        adam.arena.grads[:2] = gradients
        found = update_of(adam, 0.1, clip_norm=1.0).at(0)
        assert {name: getattr(found, name) for name in expected} == pytest.approx(expected, rel=1e-12)
        npf.optim.clip_by_global_norm(adam.arena, 1.0)
        before = adam.arena.values[0]
        adam.step()
        assert adam.arena.values[0] - before == pytest.approx(found.change, rel=1e-12)
        assert (adam.m[0], adam.v[0]) == pytest.approx((found.m, found.v), rel=1e-12)


def test_the_parts_of_a_change_add_up():
    adam = optimizer(npf.AdamW, weight_decay=0.5)
    for gradient in (1.0, -2.0):
        adam.arena.grads[:2] = gradient
        found = update_of(adam, 0.1, clip_norm=None).at(1)
        assert found.decay == pytest.approx(-0.05 * found.before)  # lr·λ = 0.05
        assert found.by_past + found.by_gradient + found.decay == pytest.approx(found.change, rel=1e-12)
        adam.step()
    assert found.by_past * found.by_gradient < 0  # 1 in the past, now −2
