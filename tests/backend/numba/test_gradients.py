"""Gradients of parameters are added where they live, however that lies in memory, and not computed for nobody."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.numba import OPS
from npformer.backend.numba.gradients import rooms


def places(shape):
    """Where a gradient of this shape may live: full of 3."""
    wide, turned = np.full((*shape[:-1], 3 * shape[-1]), 3.0), np.full(shape[::-1], 3.0)
    crooked = np.zeros(8 * int(np.prod(shape)) + 1, np.uint8)[1:].view(float).reshape(shape)
    crooked[...] = 3
    return {"of its own": np.full(shape, 3.0), "columns": wide[..., : shape[-1]], "turned": turned.T,
            "gaps": wide[..., ::3], "crooked": crooked}  # fmt: skip


@pytest.mark.parametrize("op", ["linear", "feed_forward"])
@pytest.mark.parametrize("where", ["of its own", "columns", "turned", "gaps", "crooked"])
def test_added_where_it_lives(op, where):
    rng = np.random.default_rng(0)
    sizes = [(4, 6), (6,), (6, 4), (4,)][: 2 if op == "linear" else 4]
    x, parameters = rng.normal(size=(2, 3, 4)), [rng.normal(size=size) for size in sizes]
    options = () if op == "linear" else ("gelu", None)
    y, cache = getattr(OPS, op).forward(x, *parameters, *options)
    dy = rng.normal(size=y.shape)
    dx, *true = getattr(PLAIN, op).backward(dy, getattr(PLAIN, op).forward(x, *parameters, *options)[1])
    for first in range(len(sizes)):  # the earlier ones are returned
        into = [places(size)[where] for size in sizes[first:]]
        found = getattr(OPS, op).backward(dy, cache, into)
        found = found if isinstance(found, tuple) else (found,)
        for place, gradient in zip([*found, *into], [dx, *true[:first], *(g + 3 for g in true[first:])], strict=True):
            np.testing.assert_allclose(place, gradient, rtol=1e-12, atol=1e-12)


def test_no_array_for_a_frozen_gradient_and_zeros_for_a_returned_one():
    place = np.ones((2, 3))
    returned, own, frozen = rooms((place, None), np.dtype("float64"), (4, 5), (2, 3), (3,))
    assert returned.shape == (4, 5)
    assert not returned.any()
    assert own is place
    assert frozen.shape == (0,)
