"""Dropout bits by NumPy's own Philox: the numbers of ``functional/philox.py``, about 40 times as fast."""

from __future__ import annotations

import numpy as np

from npformer.functional.philox import WORD, Draw, first_number
from npformer.typing import Array


def philox_bits(draw: Draw, size: int, like: Array) -> Array:
    """The ``size`` random 16-bit numbers of a draw for ``like`` (B, …), (size,) uint16."""
    start = first_number(draw, size, like)
    # NumPy steps its counter before the first block, so it must start one before the block of this
    # step and micro-batch; the borrow runs through all four words.
    counter = ((start // 16 | int(draw.step) << 64 | int(draw.micro) << 128) - 1) % 2**256
    generator = np.random.Philox(
        key=np.array([draw.seed, draw.site], dtype=np.uint64),
        counter=np.array([counter >> shift & WORD for shift in (0, 64, 128, 192)], dtype=np.uint64),
    )
    skipped = start % 16
    words = generator.random_raw((skipped + size + 3) // 4).astype("<u8", copy=False)
    return words.view("<u2")[skipped : skipped + size]
