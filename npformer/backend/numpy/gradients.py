"""A check of the gradients of a backward: whether all shapes fit."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.functional.arrays import expect_shape
from npformer.typing import Array

Into = Sequence[Array | None]


def expect_gradients(dy: Array, shape: tuple[int, ...], into: Into = (), *parameters: tuple[int, ...]) -> None:
    """Raise ShapeError unless dy has y's shape and each array in into its parameter's shape.

    NumPy would broadcast an array of one row, and a compiled kernel would read or write past the end of a small one.
    """
    expect_shape("dy", dy, "the shape of y", *shape)
    for place, expected in zip(reversed(into), reversed(parameters), strict=False):
        if place is not None:
            expect_shape("into", place, "the shape of the parameter", *expected)
