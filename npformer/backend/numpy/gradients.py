"""What a backward does with its parameters' gradients: add them where they live, or return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npformer.typing import Array

Into = Sequence[Array | None]


def is_frozen(into: Into, from_end: int) -> bool:
    """Whether nobody wants the gradient of the input that is from_end-th from the end (1: the last)."""
    return len(into) >= from_end and into[-from_end] is None


def settle(gradients: tuple[Any, ...], into: Into) -> Any:
    """Add the last len(into) gradients into its arrays (None: skipped); returns the others as ``Pair`` promises."""
    first_parameter = len(gradients) - len(into)
    for total, gradient in zip(into, gradients[first_parameter:], strict=True):
        if total is not None:
            total += gradient  # in place: total is a view of where the gradient lives
    rest = gradients[:first_parameter]
    return rest[0] if len(rest) == 1 else (rest or None)
