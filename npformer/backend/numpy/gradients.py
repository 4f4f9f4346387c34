"""Which gradients of parameters nobody wants."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.typing import Array

Into = Sequence[Array | None]


def is_frozen(into: Into, from_end: int) -> bool:
    """Whether nobody wants the gradient of the input that is from_end-th from the end (1: the last)."""
    return len(into) >= from_end and into[-from_end] is None
