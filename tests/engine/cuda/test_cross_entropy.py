"""Cross-entropy on a GPU: padding, smoothing, targets outside [0, V), saturated logits, no tokens."""

import numpy as np

from tests.backend.numpy import test_cross_entropy as host
from tests.backend.numpy.test_cross_entropy import case

test_equality = host.test_it_equals_the_plain_pair
test_a_target_that_is_no_class = host.test_a_target_that_is_no_class_is_treated_as_by_the_plain_pair
test_dloss = host.test_the_loss_is_a_scalar_and_dloss_a_number_or_an_array


def test_narrow_targets(agree, dtype):
    logits, targets = case(dtype, (3, 4, 5))
    assert agree("cross_entropy", logits, targets.astype(np.uint8), -100, 0.1)
    assert agree("cross_entropy", logits, np.repeat(targets, 2, axis=1)[:, ::2].astype(np.int16), 2)


def test_padding_may_hold_any_value_and_counted_tokens_are_seen(table, dtype):
    logits, targets = np.array(case(dtype, (4, 5))[0]), np.array([1, 0, 3, 2])
    clean, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    gradient = table.cross_entropy.backward(1.0, cache)
    logits[1] = np.nan  # padding
    loss, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    assert loss == clean
    np.testing.assert_array_equal(table.cross_entropy.backward(1.0, cache), gradient)
    logits[3, 4] = np.nan
    loss, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    assert np.isnan(loss)
    assert np.isnan(table.cross_entropy.backward(1.0, cache)).any(axis=1).tolist() == [False, False, False, True]
