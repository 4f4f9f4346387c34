"""The contract of every pair, layer and model, and of every table of kernels, with a device runtime on the host."""

import pytest

from tests import test_contract as contract
from tests.backend import conftest as kernels_agree
from tests.backend import test_kernels as bad_input
from tests.backend import test_not_a_number as not_a_number
from tests.backend import test_rows_of_a_batch as rows_of_a_batch


@pytest.fixture
def any64(runtime, on_gpu):
    return on_gpu(runtime, "float64")


@pytest.fixture
def any32(runtimes, on_gpu):
    return on_gpu(runtimes.HostRuntime(block=40, backwards=True), "float32")


@pytest.fixture
def whole64(runtimes, on_gpu):
    """For layers and models: blocks of one size, since every operation is tried in both."""
    return on_gpu(runtimes.HostRuntime(block=40, backwards=True), "float64")


normal, lay_out = bad_input.normal, kernels_agree.lay_out  # fixtures that these tests ask for
refuses_wrong_shapes = kernels_agree.refuses_wrong_shapes
test_purity = contract.test_its_backward_has_every_property
test_parts_of_a_batch = rows_of_a_batch.test_parts_of_a_batch_are_parts_of_the_whole
test_no_number = not_a_number.test_no_number_where_there_is_none
test_a_class_that_cannot_be = not_a_number.test_a_class_that_cannot_be_does_not_count
test_wrong_gradients = bad_input.test_gradients_of_another_shape_are_refused
test_bad_input = bad_input.test_bad_input_is_refused_in_the_plain_kernels_words
test_another_precision = bad_input.test_a_gradient_of_another_kind_is_taken


@contract.EVERY_PAIR
def test_equality(case, any64):
    contract.expect_plain(case, any64)


@contract.EVERY_LAYER
def test_equality_of_layers_and_models(case, whole64):
    contract.expect_plain(case, whole64)


@contract.EVERY_LAYER
def test_adding(case, whole64):
    contract.test_a_layers_gradients_are_added_kept_and_emptied(case, whole64)


@contract.EVERY_CASE
def test_promotion(case, any32):
    contract.expect_one_precision(case, any32)
