"""No false alarm: random shapes, masks and options, all of them right. A few of those that the command draws."""

import numpy as np
import pytest

from npformer.check.cases.catalogue import OPS, random_cases, random_model_case, random_op_case

SEED = 20


@pytest.mark.parametrize("op", OPS)
def test_no_right_operation_is_called_wrong(op, numpy64):
    reports = [random_op_case(op, SEED, number).check(numpy64) for number in range(2)]
    assert [str(report) for report in reports if not report.ok] == []


def test_no_right_model_is_called_wrong(numpy64, request):
    numbers = range(6 if request.config.getoption("full") else 1)
    reports = [random_model_case(SEED, number).check(numpy64) for number in numbers]
    assert [str(report) for report in reports if not report.ok] == []


def test_draws_are_reproducible_and_differ():
    first, again, other = (random_op_case("linear", SEED, number).inputs for number in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert first[0].shape != other[0].shape or not np.array_equal(first[0], other[0])


def test_every_operation_and_the_model_are_drawn():
    names = [case.name.split(":")[0] for case in random_cases(2, 1, SEED)]
    assert names == [op for op in OPS for _ in range(2)] + ["Transformer"]
