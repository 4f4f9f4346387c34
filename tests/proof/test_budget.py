"""Float32 gradients against float64 ones: within the budget, which a small mistake exceeds."""

from dataclasses import replace

import numpy as np
import pytest

from npformer import functional
from npformer.backend import plain_pair
from npformer.errors import ConfigError
from npformer.layers import FeedForward, MultiHeadAttention
from npformer.proof import against_float64, catalogue
from npformer.proof.budget import lengths_of_sums
from tests.proof.functions import normal, normals, scaled

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


def test_half_precision_is_over_budget(numpy32):
    def coarse(x, *rest):
        return functional.feed_forward_forward(x.astype(np.float16).astype(x.dtype), *rest)

    pair = plain_pair(coarse, functional.feed_forward_backward)
    layer = lambda backend: FeedForward(6, 8, activation="gelu", backend=backend)  # noqa: E731
    assert not in_float32_alone(numpy32, layer, feed_forward=pair).ok


def test_the_budget_grows_with_the_number_of_terms(numpy32):
    def budget(width):
        """Of the bias's gradient for one token, which is dy: its condition is 1."""
        x, weight = normal(1, width), normal(width, 3)
        report = against_float64(
            lambda backend: backend.ops.linear, (x, weight, np.array([1.0, 2.0, 3.0])), {}, numpy32
        )
        return float(report.rows[2].note.split()[-1])

    for width in (100, 1600):  # the call; y over C_in, dx over C_out, dW and db over the token
        assert budget(width) == pytest.approx(4 * 2**-24 * (1 + width**0.5 + 3**0.5 + 1 + 1), rel=0.05)  # two digits


B, H, T, S, D = 2, 3, 4, 5, 6
HEADS = [(B, H, T, D), (B, H, S, D), (B, H, S, D)]
SUMS = {
    "linear": ([(B, T, D), (D, 7), (7,)], [D, 7, B * T, B * T]),
    "softmax": ([(B, S)], [S, S]),
    "layer_norm": ([(B, T, D), (D,), (D,)], [D, D, D, D, B * T, B * T]),
    "batch_norm": ([(B, T, D), (D,), (D,)], [B * T] * 7),
    "attention": (HEADS, [D, S, S, T, D, S, S, T]),
    "biased_attention": ([*HEADS, (H, T, S)], [D, S, S, T, D, S, S, T, B]),
    "linear_attention": (HEADS, [S, D, D, T, S, D + 1, D + 1, D]),
    "conv1d": ([(B, T, D), (3, D, 7), (7,)], [D, D, D, 7, 7, 7, B * T, B * T, B * T, B * T]),
    "gru": (
        [(B, T, D), (B, 7), (D, 21), (21,), (7, 21), (21,)],
        [D, *[7] * T, *[21] * T, 21, B * T, B * T, B * T, B * T],
    ),
    "gelu": ([(B, T)], []),
}


@pytest.mark.parametrize("op", SUMS)
def test_every_sum_of_the_plain_pairs_is_counted(op):
    shapes, expected = SUMS[op]
    pair, draw = functional.OPERATIONS[op], normals()
    with lengths_of_sums() as lengths:
        y, cache = pair.forward(*(draw(*shape) for shape in shapes))
        pair.backward(draw(*y.shape), cache)
    assert sorted(lengths) == sorted(expected)
    with lengths_of_sums() as others:
        pass
    functional.softmax_forward(np.ones(3))
    assert others == []
