"""Relative position bias: buckets are cached, and gradients are summed per bucket with ``np.bincount``.

The bucket of a pair of positions depends only on the shapes and options, so it is cached for the next
call. The plain kernel's gradient multiplies by a one-hot matrix, T·S·K operations per head. Adding
each number to its bucket takes T·S, and sums in float64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer import functional as F  # noqa: N812
from npformer.backend.numpy.gradients import Into
from npformer.backend.ops import accumulate
from npformer.typing import Array

Buckets: TypeAlias = npt.NDArray[np.intp]


class RelativeBiasCache(NamedTuple):
    bucket: Buckets  # (T·S,)
    num_buckets: int  # K


def relative_bias_forward(
    table: Array, queries: int, keys: int, query_offset: int = 0, causal: bool = False, max_distance: int = 128
) -> tuple[Array, RelativeBiasCache]:
    """As the plain kernel: the bias (H, T, S) of T queries, at positions query_offset on, and S keys."""
    bucket = _bucket(table.shape, queries, keys, query_offset, causal, max_distance)
    bias = np.ascontiguousarray(table.T).take(bucket, axis=1)  # (H, T·S)
    return bias.reshape(table.shape[1], queries, keys), RelativeBiasCache(bucket, table.shape[0])


def relative_bias_backward(dbias: Array, cache: RelativeBiasCache, into: Into = ()) -> Any:
    """As the plain kernel: gradient (dtable (num_buckets, H),), given dbias (H, T, S)."""
    dtable = np.empty((cache.num_buckets, dbias.shape[0]), dtype=dbias.dtype)
    for head, given in enumerate(dbias):
        dtable[:, head] = np.bincount(cache.bucket, given.reshape(-1), cache.num_buckets)
    return accumulate((dtable,), into)


@lru_cache(maxsize=32)
def _bucket(
    shape: tuple[int, ...], queries: int, keys: int, query_offset: int, causal: bool, max_distance: int
) -> Buckets:
    """The table entry that each pair of positions uses, (T·S,), read-only. Raises as the plain kernel does."""
    _, cache = F.relative_bias_forward(np.zeros(shape), queries, keys, query_offset, causal, max_distance)
    bucket = np.asarray(cache.bucket, dtype=np.intp)
    bucket.flags.writeable = False
    return bucket
