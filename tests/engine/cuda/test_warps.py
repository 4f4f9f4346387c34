"""Kernels in which a warp computes a row, in blocks as large as asked for: there every warp is whole."""

import numpy as np
import pytest

from npformer.engine.cuda import cuda_ops
from npformer.functional import AttentionMask, Draw
from tests.backend.conftest import Agreement

DRAW = Draw(3, 7, 0, 11, 0.3)


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def agree(request, runtimes):
    return Agreement(cuda_ops(runtimes.HostRuntime(block=None, backwards=request.param)))


@pytest.fixture
def normal(dtype):
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("width", [5, 100, 256, 300, 512, 700])
def test_norms_of_rows_in_registers_and_wider_ones(agree, normal, width):
    """A lane keeps 4 numbers, or 16 of float32 and 8 of float64; of wider rows none."""
    x, f, gamma, beta = normal(3, 7, width), normal(3, 7, width), normal(width), normal(width)
    assert agree("post_norm", x, f, gamma, beta, 1e-5, DRAW)
    assert agree("add_norm", x, f, gamma, beta, 1e-5, None)


@pytest.mark.parametrize("length", [70, 128, 140])
def test_weights_of_rows_in_registers_and_longer_ones(agree, normal, length):
    q, k, v = (normal(1, 2, length, 12) for _ in range(3))
    visible = np.random.default_rng(1).random((1, length)) > 0.2
    assert agree("attention", q, k, v, AttentionMask(causal=True, key_visible=visible), DRAW)
    assert agree("attention", q, k, v, AttentionMask(stride=3, window=2), None)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_activations_load_several_numbers_at_a_time(agree, normal, activation):
    w1, b1, w2, b2 = normal(12, 600), normal(600), normal(600, 12), normal(12)
    assert agree("feed_forward", normal(9, 12), w1, b1, w2, b2, activation, DRAW)
