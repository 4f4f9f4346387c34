"""The random bits of one check, computed once: its forward runs thousands of times, and draws the same bits each time.

What is remembered is ``functional``'s own: the first draw of a check runs its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.functional import philox
from npformer.typing import Array

#: Blocks of 16 numbers of a draw that are remembered at most; more cost more to keep than to draw.
MOST_BLOCKS = 1 << 10
MOST_DRAWS = 256


@contextmanager
def remembered_bits() -> Iterator[None]:
    """For a while, what ``philox_numbers`` gave for a draw is given again, on the host."""
    own = philox.philox_numbers
    if hasattr(own, "remembers"):
        yield
        return
    known: dict[Any, Array] = {}

    def philox_numbers(draw: philox.Draw, first: int, end: int, like: Array) -> Array:
        counts = (draw.step, draw.micro)
        if end - first > MOST_BLOCKS or not isinstance(like, np.ndarray) or not all(isinstance(c, int) for c in counts):
            return own(draw, first, end, like)
        asked = (draw.seed, draw.site, *counts, first, end)
        if asked not in known:
            if len(known) >= MOST_DRAWS:
                known.clear()
            known[asked] = own(draw, first, end, like)
            known[asked].flags.writeable = False
        return known[asked]

    philox_numbers.remembers = own  # type: ignore[attr-defined]
    philox.philox_numbers = philox_numbers
    try:
        yield
    finally:
        philox.philox_numbers = own
