"""Floating-point formats: spacing, rounding, and the coarsest of several inputs."""

import numpy as np
import pytest

from npformer.check.checkable import ConstantInput
from npformer.check.rounding.formats import FORMATS, format_of, rounded
from npformer.errors import ConfigError


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_spacing_is_numpy_s(name):
    x = np.array([1.0, 1.5, 2.0, -3.7, 1e-3, 6e-5, 3e-8, 0.0, 1000.0], dtype=name)
    np.testing.assert_array_equal(FORMATS[name].spacing(x), np.spacing(np.abs(x)).astype(np.float64))


@pytest.mark.parametrize(
    ("x", "nearest"),
    [(1 + 2.0**-8, 1.0), (1 + 3 * 2.0**-8, 1 + 4 * 2.0**-8), (1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-7), (-1.003, -1.0)],
    ids=["halfway to even below", "halfway to even above", "just above half", "negative"],
)
def test_bfloat16_rounds_to_even(x, nearest):
    assert rounded(np.array([x]), FORMATS["bfloat16"]) == nearest


def test_the_coarsest_of_several_inputs_counts():
    """Half and single together are judged as half, and bfloat16 is not float16."""
    x = np.ones(2)
    assert format_of([x.astype(np.float32), x.astype(np.float16)], None).name == "float16"

    class Tensor:
        dtype, shape = "torch.bfloat16", (2,)

    assert format_of([x.astype(np.float32), Tensor()], None).name == "bfloat16"
    with pytest.raises(ConfigError, match=r"^precision: expected one of .*, got no float array$"):
        format_of([np.arange(3)], None)


@pytest.mark.parametrize(("name", "least"), [("float32", 2.0**-149), ("float16", 2.0**-24), ("bfloat16", 2.0**-133)])
def test_the_least_number_is_kept_and_a_constant_stays_one(name, least):
    stored = rounded(np.array([least, 0.4 * least]).view(ConstantInput), FORMATS[name])
    np.testing.assert_array_equal(stored, [least, 0])
    assert isinstance(stored, ConstantInput)


def test_what_is_lost_where_numbers_are_stored():
    """All of a subnormal number of float32, as on a GPU; of float16, whose range is small, half a spacing."""
    x = np.array([1.0, 1e-40])
    assert FORMATS["float32"].stored(x).tolist() == [2.0**-23, 2.0**-126]
    assert FORMATS["float16"].stored(np.array([1.0, 1e-6])).tolist() == [2.0**-10, 2.0**-24]
