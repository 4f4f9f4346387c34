"""Dropout and x + Drop(f) on a GPU: the plain pairs' bits, wherever the step lives."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.check.cases.catalogue import usual_inputs
from npformer.engine.cuda.device_runtime import drawn
from npformer.functional import Draw
from tests.backend import test_kernels as kernels
from tests.backend.conftest import both_ways

DRAW = Draw(3, 4, 1, 99, 0.3)
DRAWS = [*kernels.DRAWS, Draw(2**64 - 1, 2**40, 7, 2**63, 0.1, first_row=5), DRAW._replace(rate=0.0)]
#: One number, none, less and more than a stretch of 1024, and stretches that do not begin with a block of bits.
SHAPES = [(1, 1), (1,), (0, 3), (2, 3, 5), (3, 341), (33, 3, 31), (2, 8200)]

normal = kernels.normal  # a fixture


@pytest.mark.parametrize("draw", DRAWS, ids=["inference", "dropout", "later rows", "large words", "rate 0"])
@pytest.mark.parametrize("layout", ["gaps"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_and_residual(agree, normal, shape, draw):
    kernels.test_dropout_and_residual(agree, normal, shape, draw)


@pytest.mark.parametrize("op", ["dropout", "residual", "post_norm", "add_norm", "feed_forward"])
def test_the_step_may_live_on_the_gpu(table, op):
    """The same call, played again at another step, drops what that step drops."""
    step, drawn = np.array(0, np.uint64), []
    for number in (4, 2**40 + 4, 2**63 + 9):
        step[...] = number
        for given in (number, step):
            inputs = [x._replace(step=given) if isinstance(x, Draw) else x for x in usual_inputs(op)]
            drawn.append(both_ways(table, op, inputs))
        assert all(map(np.array_equal, *drawn[-2:]))
    assert not np.array_equal(drawn[0][0], drawn[2][0])
    assert not np.array_equal(drawn[2][0], drawn[4][0])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32])
def test_a_step_of_numpys_whole_numbers_is_a_number_and_no_address(kind):
    x = np.ones((5, 70))
    assert drawn(DRAW._replace(step=kind(5)), x) == drawn(DRAW._replace(step=5), x)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dropped_entries_are_0_even_if_nan_and_a_kept_nan_is_seen(table, value):
    x, bad = np.ones((4, 50)), np.full((4, 50), value)
    kept = PLAIN.dropout.forward(x, DRAW)[0] > 0
    for y in (table.dropout.forward(bad, DRAW)[0], table.dropout.backward(bad, table.dropout.forward(x, DRAW)[1])):
        np.testing.assert_array_equal(y == 0, ~kept)
        assert not np.isfinite(y[kept]).any()
    np.testing.assert_array_equal(table.residual.forward(x, bad, DRAW)[0] == 1, ~kept)
