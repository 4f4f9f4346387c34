"""Which gradients of parameters nobody wants, and whether all that come in have their shape."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.functional.arrays import expect_shape
from npformer.typing import Array

Into = Sequence[Array | None]


def is_frozen(into: Into, from_end: int) -> bool:
    """Whether nobody wants the gradient of the input that is from_end-th from the end (1: the last)."""
    return len(into) >= from_end and into[-from_end] is None


def expect_gradients(dy: Array, shape: tuple[int, ...], into: Into = (), *parameters: tuple[int, ...]) -> None:
    """Raise ShapeError unless dy has y's shape and each place in into its parameter's.

    NumPy would stretch an array of one row; a kernel would read, or write, what lies behind one that is too small.
    """
    expect_shape("dy", dy, "the shape of y", *shape)
    for place, expected in zip(reversed(into), reversed(parameters), strict=False):
        if place is not None:
            expect_shape("into", place, "the shape of the parameter", *expected)
