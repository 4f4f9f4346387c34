"""Cross-entropy in every table: padding, smoothing, targets outside [0, V), saturated logits, no tokens."""

import numpy as np
import pytest

from npformer.backend import PLAIN

SHAPES = [(1, 1), (1, 7), (2, 3, 5), (40, 30, 61), (0, 3, 4), (2, 0, 4), (5,), (3, 5003)]


def case(dtype, shape, scale=1.0):
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=(*shape[:-1], 2 * shape[-1]))).astype(dtype)[..., ::2]
    logits.flags.writeable = False
    return logits, rng.integers(0, shape[-1], size=shape[:-1])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ignore_index", [0, None, -100, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_it_equals_the_plain_pair(
    agree, dtype, shape, ignore_index, smoothing,
    scale,
):  # fmt: skip
    logits, targets = case(dtype, shape, scale)
    assert agree("cross_entropy", logits, targets, ignore_index, smoothing)
    assert agree("cross_entropy", logits, targets.astype(np.uint8), ignore_index, smoothing)
    if targets.ndim and ignore_index is not None:
        some = np.where(targets % 2, targets, ignore_index)
        assert agree("cross_entropy", logits, some, ignore_index, smoothing)
        assert agree("cross_entropy", logits, np.full_like(targets, ignore_index), ignore_index, smoothing)


def test_a_target_that_is_no_class_is_treated_as_by_the_plain_pair(agree, dtype):
    logits, targets = case(dtype, (3, 4, 5))
    targets[0], targets[1, 2] = -1, 5
    for smoothing in (0.0, 0.2):
        assert agree("cross_entropy", logits, targets, 0, smoothing)
        assert agree("cross_entropy", logits, targets, -1, smoothing)


def test_the_loss_is_a_scalar_and_dloss_a_number_or_an_array(table):
    logits, targets = case("float32", (2, 3, 5))
    loss, cache = table.cross_entropy.forward(logits, targets)
    plain, plain_cache = PLAIN.cross_entropy.forward(logits, targets)
    assert loss.shape == plain.shape == ()
    assert loss.dtype == plain.dtype == np.float32
    for dloss in (0.5, 2, np.float32(0.5), np.array(0.5, np.float32), np.array(0.5), np.array(3)):
        actual, true = table.cross_entropy.backward(dloss, cache), PLAIN.cross_entropy.backward(dloss, plain_cache)
        np.testing.assert_allclose(actual, true, rtol=0, atol=1e-7)
        assert actual.dtype == np.float32
