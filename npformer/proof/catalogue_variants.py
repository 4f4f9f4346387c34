"""Cases for the catalogue of what a Transformer may be made of instead, and of what came before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.functional import AttentionMask
from npformer.proof.catalogue import DRAW, Case, gaps, op, padding


def variant_op_cases() -> Iterator[Case]:
    """The operations, on random inputs and on the awkward ones."""
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(size=shape)

    yield op("rotary", "", normal(2, 2, 3, 6), 2)
    yield op("rotary", "another base, gaps in memory", gaps(normal(2, 5, 4)), 0, 50.0)
    yield op("relative_bias", "near and far, both ways", normal(8, 3), 6, 9, 0, False, 5)
    yield op("relative_bias", "causal, offset", normal(5, 2), 3, 7, 4, True, 4)
    counts = np.array([[True, True, False], [True, False, False]])
    yield op("batch_norm", "padding", normal(2, 3, 5), normal(5), normal(5), counts)
    given = (normal(5), 1 + normal(5) ** 2)
    yield op("batch_norm_inference", "gaps in memory", gaps(normal(2, 3, 5)), normal(5), normal(5), *given)
    q, k, v = normal(2, 2, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 6)
    nearer = padding(5, 3, 0)
    yield op("biased_attention", "", q, k, v, normal(2, 3, 5))
    yield op("biased_attention", "padding, a query that sees nothing, dropout", q, k, v, normal(2, 3, 5), nearer, DRAW)
    x7, y7, z7 = (normal(2, 2, 7, 4) for _ in range(3))
    seen = np.arange(7)[None, :] < np.array([[7], [3]])
    yield op("local_attention", "window, padding, dropout", x7, y7, z7, AttentionMask(seen, window=2), DRAW)
    yield op("local_attention", "causal, window and stride", x7, y7, z7, AttentionMask(causal=True, window=2, stride=3))
    yield op("local_attention", "stride, padding", x7, y7, gaps(z7), AttentionMask(seen, stride=3), DRAW)
    yield op("linear_attention", "", q, k, v)
    yield op("linear_attention", "padding, a query that sees nothing", q, k, v, nearer)
    yield op("linear_attention", "causal, padding", x7, y7, z7, AttentionMask(seen, causal=True))
    long = [normal(2, 2, 70, 2) for _ in range(3)]
    yield op("linear_attention", "causal, two chunks", *long, AttentionMask(causal=True))
    recurrent = (normal(3, 12), normal(12), normal(4, 12), normal(12))
    yield op("gru", "padding", normal(2, 5, 3), normal(2, 4), *recurrent, np.arange(5)[None, :] < [[5], [3]])
    yield op("gru", "gaps in memory", gaps(normal(2, 3, 3)), gaps(normal(2, 4)), *recurrent)
    yield op("conv1d", "", normal(2, 5, 3), normal(3, 3, 4), normal(4))
    yield op("conv1d", "causal, wider than the sequence", normal(2, 3, 2), normal(5, 2, 4), normal(4), True)
