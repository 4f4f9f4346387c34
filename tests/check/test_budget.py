"""Float32 gradients against float64 ones: within the budget, which a small mistake exceeds."""

from dataclasses import replace

import numpy as np
import pytest

from npformer import functional
from npformer.backend import plain_pair
from npformer.check import against_float64, catalogue
from npformer.errors import ConfigError
from npformer.layers import MultiHeadAttention
from tests.check.functions import normal, scaled

CASES = [case for case in catalogue() if not case.float64_only]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_float32_is_within_its_budget(case, numpy32):
    against_float64(case.build, case.inputs, case.options, numpy32, case.name).raise_if_failed()


def test_the_reference_is_not_compared_with_itself(numpy64):
    with pytest.raises(ConfigError, match="comparing a function with itself proves nothing"):
        against_float64(lambda backend: backend.ops.relu, (np.ones((2, 3)),), {}, numpy64)


def in_float32_alone(backend, build, **pairs):
    """The check of a layer with these pairs in float32, and with the usual ones in float64."""

    def built(backend):
        return build(replace(backend, ops=replace(backend.ops, **pairs)) if backend.dtype == "float32" else backend)

    return against_float64(built, (normal(3, 5, 6),), {}, backend)


def test_a_thousandth_too_much_is_over_budget(numpy32):
    pair = plain_pair(functional.linear_forward, scaled("linear", 1, 1, 1.001))
    report = in_float32_alone(numpy32, lambda backend: MultiHeadAttention(6, 2, backend=backend), linear=pair)
    wrong = {row.tensor for row in report.rows if not row.ok}
    assert {"value.bias", "output.bias"} <= wrong
    assert not {"query.weight", "value.weight", "output.weight", "input 0"} & wrong


def budget_of(op, backend, *inputs):
    """The budget of the first input's gradient, which is within it."""
    report = against_float64(lambda backend: getattr(backend.ops, op), inputs, {}, backend)
    assert report.ok
    return float(report.rows[0].note.split()[-1])


def test_the_budget_is_what_rounding_explains(numpy32):
    exact = budget_of("relu", numpy32, normal(3, 4))
    assert exact == pytest.approx(8 * 2**-24, rel=0.05)  # nothing is rounded but the result; two digits
    assert 1.5 * exact < budget_of("linear", numpy32, normal(1, 6), normal(6, 99), np.zeros(99)) < 5 * exact


def test_where_terms_cancel_the_budget_is_wider(numpy32):
    usual, saturated = (budget_of("softmax", numpy32, np.array([[x, 0.0, 1.0]])) for x in (1.0, 12.0))
    assert saturated > 1000 * usual  # 1 - y, where y is 1 to five digits
