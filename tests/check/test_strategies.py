"""Shapes keep to their budget and like the sizes they should; arrays keep away from 0 and from ties."""

import math
import re
import sys

import numpy as np
import pytest

from npformer.check.cases import strategies
from npformer.errors import ConfigError, ShapeError
from npformer.extras import install

hypothesis = pytest.importorskip("hypothesis", reason="Hypothesis is not installed: pip install 'npformer[hypothesis]'")
given, st = hypothesis.given, hypothesis.strategies

#: The same examples in every run and on every machine, nothing kept on disk, no clock.
SAME = {"derandomize": True, "deadline": None, "database": None, "max_examples": 100}
SETTINGS = hypothesis.settings(**SAME, suppress_health_check=list(hypothesis.HealthCheck))


@SETTINGS
@given(strategies.shapes(min_dims=1, max_dims=4))
def test_shapes_keep_to_the_budget(shape):
    assert 1 <= len(shape) <= 4
    assert all(2 <= side <= 129 for side in shape)
    assert math.prod(shape) <= 2000


def test_every_side_that_is_liked_occurs_and_others_do():
    seen = []
    places = set()

    @hypothesis.settings(SETTINGS, max_examples=300)
    @given(strategies.shapes(min_dims=2, max_dims=3))
    def look(shape):
        seen.extend(shape)
        places.update(i for i, side in enumerate(shape) if side > 100)

    look()
    assert set(seen) > set(strategies.SIDES)
    assert places == {0, 1, 2}


@pytest.mark.parametrize("options", [{"min_dims": 3, "max_dims": 2}, {"max_elements": 15}, {"min_side": 0}])
def test_shapes_that_cannot_be(options):
    with pytest.raises(ConfigError, match="expected 0 <= min_dims <= max_dims"):
        strategies.shapes(**options)


@SETTINGS
@given(st.data(), strategies.shapes(), st.sampled_from(["float32", "float64"]))
def test_numbers_are_far_from_0_and_from_each_other(data, shape, dtype):
    x = data.draw(strategies.arrays(shape, dtype))
    assert (x.shape, x.dtype) == (shape, np.dtype(dtype))
    assert np.all((np.abs(x) >= 0.1 - 1e-7) & (np.abs(x) <= 2))
    assert np.min(np.diff(np.sort(x, axis=None)), initial=9) >= 1.9 / x.size - 1e-6


def test_arrays_of_one_length_of_drawn_shapes_and_of_none():
    @SETTINGS
    @given(strategies.arrays(4), strategies.shapes(2, 2).flatmap(strategies.arrays), strategies.arrays(st.just((2, 3))))
    def look(one, two, three):
        assert (one.shape, two.ndim, three.shape) == ((4,), 2, (2, 3))
        assert one.min() != one.max()

    look()
    with pytest.raises(ShapeError, match=r"expected sides of at least 1, got \(2, 0\): an empty check proves nothing"):
        strategies.arrays((2, 0))


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(ConfigError, match=rf"{re.escape(install('hypothesis'))}$"):
        strategies.shapes()
