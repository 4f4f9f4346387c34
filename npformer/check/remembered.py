"""Caches the random bits of a check, whose forward runs thousands of times and draws the same bits each time.

The cached bits come from ``functional``: the first draw of a check runs its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.functional import philox
from npformer.typing import Array

#: The most blocks of 16 numbers cached for a draw; keeping more costs more than drawing them.
MOST_BLOCKS = 1 << 10
MOST_DRAWS = 256


@contextmanager
def remembered_bits() -> Iterator[None]:
    """Within this context, repeated calls of ``philox_numbers`` return cached results, on the host."""
    original = philox.philox_numbers
    if hasattr(original, "remembers"):
        yield
        return
    known: dict[Any, Array] = {}

    def philox_numbers(draw: philox.Draw, first: int, end: int, like: Array) -> Array:
        counts = (draw.step, draw.micro)
        if end - first > MOST_BLOCKS or not isinstance(like, np.ndarray) or not all(isinstance(c, int) for c in counts):
            return original(draw, first, end, like)
        asked = (draw.seed, draw.site, *counts, first, end)
        if asked not in known:
            if len(known) >= MOST_DRAWS:
                known.clear()
            known[asked] = original(draw, first, end, like)
            known[asked].flags.writeable = False
        return known[asked]

    philox_numbers.remembers = original  # type: ignore[attr-defined]
    philox.philox_numbers = philox_numbers
    try:
        yield
    finally:
        philox.philox_numbers = original
