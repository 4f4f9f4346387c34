"""Cross-entropy: values by Python's log, the mean over counted tokens, smoothing, and extreme logits."""

import math

import numpy as np
import pytest

from npformer.functional import cross_entropy_backward, cross_entropy_forward

TARGETS = np.array([[1, 4, 0], [2, 0, 0]])


def token_loss(row, target, smoothing):
    """−Σ q log p of one token, spelled with math."""
    total = math.fsum(math.exp(z) for z in row)
    log_p = [z - math.log(total) for z in row]
    even = smoothing / len(row)
    return -math.fsum(((1 - smoothing) * (v == target) + even) * log_p[v] for v in range(len(row)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("ignore_index", [0, 2, None, -100])
def test_the_mean_is_over_counted_tokens(rng, smoothing, ignore_index):
    logits = rng.normal(size=(2, 3, 5))
    loss, _ = cross_entropy_forward(logits, TARGETS, ignore_index, smoothing)
    counted = [(b, t) for b, t in np.ndindex(2, 3) if ignore_index is None or TARGETS[b, t] != ignore_index]
    assert len(counted) == {0: 3, 2: 5, None: 6, -100: 6}[ignore_index]
    losses = [token_loss(logits[place].tolist(), int(TARGETS[place]), smoothing) for place in counted]
    assert float(loss) == pytest.approx(math.fsum(losses) / len(counted), rel=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_counted_is_loss_0_and_gradient_0(rng, dtype):
    loss, cache = cross_entropy_forward(rng.normal(size=(2, 3, 5)).astype(dtype), np.zeros((2, 3), dtype=int), 0, 0.1)
    (dlogits,) = cross_entropy_backward(1.0, cache)
    assert float(loss) == 0
    assert dlogits.dtype == dtype
    assert not dlogits.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_size_1e4_are_exact_enough(dtype):
    logits = np.array([[1e4, -1e4, 0.0], [1e4, -1e4, 0.0], [1e4, 1e4, 1e4]], dtype=dtype)
    loss, cache = cross_entropy_forward(logits, np.array([0, 1, 2]), None, 0.0)
    assert float(loss) == pytest.approx((0 + 2e4 + math.log(3)) / 3, rel=1e-6)
    third = 1 / 3
    expected = [[0, 0, 0], [third, -third, 0], [third / 3, third / 3, -2 * third / 3]]
    np.testing.assert_allclose(cross_entropy_backward(1.0, cache)[0], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint64])
def test_narrow_targets_do_not_wrap(rng, dtype):
    logits, targets = rng.normal(size=(4, 300)), np.array([1, 44, 127, 0])
    wide, narrow = (cross_entropy_forward(logits, t, None) for t in (targets, targets.astype(dtype)))
    assert float(wide[0]) == float(narrow[0])
    assert np.array_equal(cross_entropy_backward(1.0, wide[1])[0], cross_entropy_backward(1.0, narrow[1])[0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_class_that_is_ruled_out(smoothing):
    """Its logit is −∞: as if it were not there, unless it is the target or smoothing expects a share of it."""
    logits, targets = np.array([[-np.inf, 1.0, 2.0]]), np.array([1])
    loss, cache = cross_entropy_forward(logits, targets, None, smoothing)
    if smoothing:
        assert loss == np.inf
        return
    true, few = cross_entropy_forward(logits[:, 1:], targets - 1, None)
    assert loss == true
    (actual,), (expected,) = cross_entropy_backward(1.0, cache), cross_entropy_backward(1.0, few)
    assert np.array_equal(actual, np.concatenate([[[0.0]], expected], axis=1))
    assert cross_entropy_forward(logits, targets - 1, None)[0] == np.inf
