"""Positions on a GPU: sines and cosines in double whatever the precision, and a learned table's gradient."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.engine.cuda import positions

#: One number, an odd width (a sine without its cosine), no sequences, several pieces of 256 columns, no batch, two.
SHAPES = [(1, 1, 1), (2, 3, 5), (0, 3, 4), (5, 9, 62), (7, 6), (3, 2, 4, 6), (2, 0, 4)]


def normal(dtype, *shape):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_positions(agree, dtype, shape):
    x = normal(dtype, *shape[:-1], 2 * shape[-1])[..., ::2]
    assert agree("sinusoidal_positions", x)
    assert agree("sinusoidal_positions", x, 3)
    if shape[-2] == 0:
        return  # the plain learned pair does not take it
    for offset in (0, 2):
        assert agree("learned_positions", x, normal(dtype, shape[-2] + 4, shape[-1]), offset)
    assert agree("learned_positions", x, np.asfortranarray(normal(dtype, shape[-2], shape[-1])))


def test_far_positions_are_as_exact_as_near_ones(table, dtype):
    """An angle of some thousands has no digits left behind the point in float32: it must not be computed there."""
    x = np.zeros((1, 4, 6), dtype)
    bound = {"float32": 2.0**-24, "float64": 2e-12}[dtype]  # one rounding; an angle of 10⁴ rounded twice
    found, true = (ops.sinusoidal_positions.forward(x, 9000)[0] for ops in (table, PLAIN))
    np.testing.assert_allclose(found, true, rtol=0, atol=bound)


def test_many_sequences_share_one_table_of_sines(runtime, table, monkeypatch):
    monkeypatch.setattr(positions, "BLOCKS", 6)
    x = normal("float64", 9, 4, 150)  # 3 pieces, so 2 blocks for each of them
    found, true = (ops.sinusoidal_positions.forward(x, 1)[0] for ops in (table, PLAIN))
    np.testing.assert_allclose(found, true, rtol=0, atol=1e-15)
    assert runtime.launched == ["positions.add_positions"]
