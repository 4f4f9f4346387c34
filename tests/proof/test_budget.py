"""Float32 gradients against float64 ones: within the budget, which a small mistake exceeds."""

from dataclasses import replace

import numpy as np
import pytest

from npformer import functional
from npformer.backend import Backend, plain_pair
from npformer.errors import ConfigError
from npformer.layers import FeedForward, MultiHeadAttention
from npformer.proof import against_float64, catalogue

CASES = [case for case in catalogue() if not case.float64_only]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_float32_is_within_its_budget(case, numpy32):
    against_float64(case.build, case.inputs, case.options, numpy32, case.name).raise_if_failed()


def test_the_reference_is_not_compared_with_itself(numpy64):
    with pytest.raises(ConfigError, match="comparing a function with itself proves nothing"):
        against_float64(lambda backend: backend.ops.relu, (np.ones((2, 3)),), {}, numpy64)


def test_a_thousandth_too_much_is_over_budget(numpy32):
    def slightly_wrong(dy, cache):
        dx, dweight, dbias = functional.linear_backward(dy, cache)
        return dx, dweight, dbias * 1.001

    pair = plain_pair(functional.linear_forward, slightly_wrong)

    def build(backend: Backend) -> MultiHeadAttention:
        if backend.dtype == "float32":
            backend = replace(backend, ops=replace(backend.ops, linear=pair))
        return MultiHeadAttention(6, 2, backend=backend)

    x = np.random.default_rng(0).normal(size=(3, 5, 6))
    report = against_float64(build, (x,), {}, numpy32)
    wrong = {row.tensor for row in report.rows if not row.ok}
    assert {"value.bias", "output.bias"} <= wrong
    assert not {"query.weight", "value.weight", "output.weight", "input 0"} & wrong


def test_half_precision_is_over_budget(numpy32):
    def coarse(x, *rest):
        return functional.feed_forward_forward(x.astype(np.float16).astype(x.dtype), *rest)

    pair = plain_pair(coarse, functional.feed_forward_backward)

    def build(backend: Backend) -> FeedForward:
        if backend.dtype == "float32":
            backend = replace(backend, ops=replace(backend.ops, feed_forward=pair))
        return FeedForward(6, 8, activation="gelu", backend=backend)

    x = np.random.default_rng(0).normal(size=(3, 5, 6))
    assert not against_float64(build, (x,), {}, numpy32).ok


def test_the_budget_grows_with_the_number_of_terms(numpy32):
    def budget(width: int) -> float:
        x, weight = (np.random.default_rng(0).normal(size=shape) for shape in ((4, width), (width, 3)))
        report = against_float64(
            lambda backend: backend.ops.linear, (x, weight, np.array([1.0, 2.0, 3.0])), {}, numpy32
        )
        return float(report.rows[2].note.split()[-1])

    assert 3 < (budget(1600) - 0) / budget(100) < 4.1
