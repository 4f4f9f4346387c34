"""BatchNorm as a layer: running statistics, updated only by remember, and used in inference."""

import numpy as np
import pytest

from npformer.functional import AttentionMask
from npformer.layers import BatchNorm, Context, RandomKey
from npformer.layers.batch_norm import statistics_in
from npformer.training.bench import Clock

X = np.random.default_rng(0).normal(2.0, 3.0, size=(4, 5, 3))
VISIBLE = np.arange(5) < np.array([[5], [3], [2], [4]])


def training(visible=None):
    return Context(AttentionMask(visible), key=RandomKey(0))


def seen_by(norm, x, visible=None):
    """What norm saw in a training forward."""
    (seen,) = statistics_in(norm.forward(x, context=training(visible))[1])
    return seen


@pytest.mark.parametrize("visible", [None, VISIBLE])
def test_running_statistics_move_towards_those_of_the_batch(visible, any64):
    norm = BatchNorm(3, momentum=0.25, backend=any64)
    tokens = X.reshape(-1, 3) if visible is None else X[visible]
    norm.remember(seen_by(norm, X, visible=visible))
    np.testing.assert_allclose(norm.running_mean.data, 0.25 * tokens.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.running_variance.data, 0.75 + 0.25 * tokens.var(0, ddof=1), rtol=1e-12)


def test_statistics_are_seen_on_the_clock_too(any64):
    backend = Clock(any64).timed
    np.testing.assert_allclose(seen_by(BatchNorm(3, backend=backend), X).mean, X.mean((0, 1)), rtol=1e-12)


def test_a_forward_changes_no_running_statistics_and_inference_uses_them(numpy64):
    norm = BatchNorm(3, momentum=1.0, eps=0.0, backend=numpy64)
    norm.forward(X, context=training())
    assert np.array_equal(norm(X), X)  # mean 0, variance 1 still
    norm.remember(seen_by(norm, X))
    tokens = X.reshape(-1, 3)
    np.testing.assert_allclose(norm(X[:1]), (X[:1] - tokens.mean(0)) / tokens.std(0, ddof=1), rtol=1e-12)


def test_padding_alone_and_a_single_token_leave_finite_statistics(numpy64):
    norm = BatchNorm(3, backend=numpy64)
    norm.remember(seen_by(norm, X, visible=np.zeros_like(VISIBLE)))
    assert not norm.running_mean.data.any()
    assert np.array_equal(norm.running_variance.data, np.ones(3))
    norm.remember(seen_by(norm, X[:1, :1]))
    assert np.isfinite(norm.running_variance.data).all()
