"""Fixtures of the optimiser tests: a small arena with a matrix, two biases and a gap between them."""

import numpy as np
import pytest

from npformer.backend import Arena
from npformer.layers import Parameter

SHAPES = {"first.weight": (3, 5), "first.bias": (5,), "second.weight": (2, 3), "second.bias": (3,), "third.gain": (9,)}


@pytest.fixture
def arena(numpy64):
    """Five parameters with random values; their gradients are 0."""
    rng = np.random.default_rng(0)
    parameters = [(name, Parameter(name, rng.normal(size=shape)), ()) for name, shape in SHAPES.items()]
    return Arena(parameters, numpy64)


@pytest.fixture
def tensors():
    """tensors(arena, flat): each parameter's part of a flat array, by name: views."""
    return lambda arena, flat: {segment.name: arena.view(flat, segment) for segment in arena.segments}
