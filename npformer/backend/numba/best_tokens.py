"""The likeliest tokens of each row and log Σ exp of all, in one kernel: see ``decoding/best_tokens.py``."""

from __future__ import annotations

import math

import numpy as np

from npformer.backend.numba.compiling import kernel, takes
from npformer.backend.numba.exponential import exponential
from npformer.backend.workspace import empty
from npformer.typing import Array, HostArray


def best_tokens(logits: Array, k: int) -> tuple[HostArray, HostArray] | None:
    """The k likeliest tokens of logits (B, V), k <= V, of equally likely ones the smallest id, and their log P.

    Both (B, k), int64 and float64. None where there is a NaN, or one of the k is infinite: which of those comes first
    is for NumPy to say; and for logits that are not in row-major order.
    """
    flags, batch = logits.flags, logits.shape[0]
    if not (takes(logits.dtype.char) and flags.c_contiguous and flags.aligned):
        return None
    tokens, values, log_sums = np.empty((batch, k), np.int64), empty((batch, k), logits.dtype), np.empty(batch)
    best_of_rows(logits, tokens, values, log_sums)
    if not (np.isfinite(values).all() and np.isfinite(log_sums).all()):
        return None
    return tokens, values - log_sums[:, None]


@kernel("XWYd")
def best_of_rows(logits, tokens, values, log_sums):
    """Of each row (V,) the largest, largest first, where they are, and log Σ exp: NaN if there is one in the row."""
    k = tokens.shape[1]
    for r in range(logits.shape[0]):
        row, found, nan = logits[r], 0, False
        for v in range(row.shape[0]):
            x = row[v]
            nan = nan or x != x
            if found < k or x > values[r, k - 1]:
                found = min(found + 1, k)
                place = found - 1
                while place > 0 and x > values[r, place - 1]:
                    values[r, place], tokens[r, place] = values[r, place - 1], tokens[r, place - 1]
                    place -= 1
                values[r, place], tokens[r, place] = x, v
        top, total = values[r, 0], row.dtype.type(0)
        for v in range(row.shape[0]):
            total += exponential(row[v] - top)
        log_sums[r] = math.nan if nan else top + math.log(total)
