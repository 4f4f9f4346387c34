"""Gradients of parameters are added where they live, however that lies in memory, and not computed for nobody."""

import numpy as np
import pytest

from npformer.engine.numba import OPS
from npformer.engine.numba.gradients import rooms
from tests.backend.conftest import Agreement


def places(shape):
    """Where a gradient of this shape may live: full of 3."""
    wide, turned = np.full((*shape[:-1], 3 * shape[-1]), 3.0), np.full(shape[::-1], 3.0)
    crooked = np.zeros(8 * int(np.prod(shape)) + 1, np.uint8)[1:].view(float).reshape(shape)
    crooked[...] = 3
    return {"of its own": np.full(shape, 3.0), "columns": wide[..., : shape[-1]], "turned": turned.T,
            "gaps": wide[..., ::3], "crooked": crooked}  # fmt: skip


@pytest.mark.parametrize("where", ["of its own", "columns", "turned", "gaps", "crooked"])
def test_added_where_it_lives(where, monkeypatch):
    def intos(self, gradients, count):
        """All parameters, and without the first ones, which are returned."""
        for first in range(count):
            yield [places(gradient.shape)[where] for gradient in gradients[-count:][first:]]

    monkeypatch.setattr(Agreement, "intos", intos)
    agree, rng = Agreement(OPS), np.random.default_rng(0)
    x, *parameters = (rng.normal(size=size) for size in ((2, 3, 4), (4, 6), (6,), (6, 4), (4,)))
    assert agree("linear", x, *parameters[:2])
    assert agree("feed_forward", x, *parameters, "gelu", None)


def test_no_array_for_a_frozen_gradient_and_zeros_for_a_returned_one():
    place = np.ones((2, 3))
    returned, new, frozen = rooms((place, None), np.dtype("float64"), (4, 5), (2, 3), (3,))
    assert returned.shape == (4, 5)
    assert not returned.any()
    assert new is place
    assert frozen.shape == (0,)
