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

#: Numbers of a draw that are remembered at most; larger ones cost more to keep than to draw.
MOST_WORDS = 1 << 12
MOST_DRAWS = 256


@contextmanager
def remembered_bits() -> Iterator[None]:
    """For a while, what ``philox_block`` gave for a counter and a key is given again."""
    own = philox.philox_block
    if hasattr(own, "remembers"):
        yield
        return
    known: dict[Any, tuple[Array, ...]] = {}

    def philox_block(counter: tuple[Array, ...], key: tuple[int, int]) -> tuple[Array, ...]:
        if not all(isinstance(c, np.ndarray) and c.size <= MOST_WORDS for c in counter):
            return own(counter, key)
        asked = (tuple(c.tobytes() for c in counter), tuple(int(part) for part in key))
        if asked not in known:
            if len(known) >= MOST_DRAWS:
                known.clear()
            known[asked] = own(counter, key)
        return known[asked]

    philox_block.remembers = own  # type: ignore[attr-defined]
    philox.philox_block = philox_block
    try:
        yield
    finally:
        philox.philox_block = own
