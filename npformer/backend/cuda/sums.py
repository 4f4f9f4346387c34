"""Gradients that are sums over all tokens: of biases, of γ and β. Parts of the rows first, then the parts."""

from __future__ import annotations

from npformer.backend.cuda.card import Card, warps, whole_blocks
from npformer.typing import Array

#: Into how many parts rows are divided, at most: enough to keep a large card busy.
PARTS = 264


def parts_of(rows: int) -> int:
    """Into how many parts so many rows are divided: it depends on their number alone, so two runs agree."""
    return max(1, min(PARTS, rows // 4))


def column_sums(card: Card, x: Array, into: Array | None = None) -> Array:
    """Σ of the rows of x (N, C), row-major: added to into (C,), or (None) a new array. Returns it."""
    rows, width = x.shape
    partials = card.empty((parts_of(rows), width), x.dtype)
    card.launch("sums.column_partials", x.dtype, partials.shape[0], warps(width), x, partials, rows, width)
    return add_partials(card, partials, into)


def add_partials(card: Card, partials: Array, into: Array | None = None) -> Array:
    """Σ of the rows of partials (P, C), a view of whole rows too: added to into (C,), or (None) a new array."""
    total = card.empty(partials.shape[1:], partials.dtype) if into is None else into
    width = total.shape[0]
    card.launch(
        "sums.add_partials", partials.dtype, whole_blocks(width), 256,
        partials, total, partials.shape[0], partials.strides[0] // partials.dtype.itemsize, width, into is not None,
    )  # fmt: skip
    return total
