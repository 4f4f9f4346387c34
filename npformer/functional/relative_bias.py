"""Relative position bias, as in T5: each head learns a number for each distance, which is added to the scores.

    bias_htj = table_{bucket(j − t), h}            scores ← Q Kᵀ/√D + bias            query t, key j

bucket(·) sorts distances into num_buckets buckets. Small distances have one bucket each, larger ones share buckets
whose width grows with the distance, and all beyond max_distance share the last. With share buckets per direction,
exact = ⌊share/2⌋ and distance = |j − t|,

    bucket = distance  where distance < exact,  else
    bucket = exact + ⌊log(distance/exact)/log(max_distance/exact)·(share − exact)⌋,  at most share − 1

Without causal each direction has half of the buckets, share = num_buckets/2, and later keys use the second half. With
causal there are no later keys: share = num_buckets, and distance = max(t − j, 0).

Backward. An entry of the table was used by every pair in its bucket, so it receives their sum,

    dtable_kh = Σ_{t,j: bucket(j − t) = k} dbias_htj = (Oᵀ dbias)_kh        O one-hot (T·S, num_buckets)

Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ConfigError, ShapeError
from npformer.functional.arrays import device_of, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class RelativeBiasCache(NamedTuple):
    bucket: Array  # (T·S,)  integers: which entry each pair used
    num_buckets: int
    shape: tuple[int, int]  # (T, S)


def relative_bias_forward(
    table: Array, queries: int, keys: int, query_offset: int = 0, causal: bool = False, max_distance: int = 128
) -> tuple[Array, RelativeBiasCache]:
    """The bias (H, T, S) of T queries, at positions query_offset on, and S keys, from table (num_buckets, H).

    Raises ShapeError if table is not a matrix, ConfigError if num_buckets and max_distance allow no such buckets.
    """
    if table.ndim != 2:
        raise ShapeError(f"table: expected (num_buckets, H), got {tuple(table.shape)}")
    expect_buckets(table.shape[0], causal, max_distance)
    xp = namespace(table)
    bucket = xp.reshape(_buckets(table, queries, keys, query_offset, causal, max_distance), (-1,))  # (T·S,)
    bias = xp.take(table, bucket, axis=0)  # (T·S, H)
    bias = xp.permute_dims(xp.reshape(bias, (queries, keys, table.shape[1])), (2, 0, 1))
    return bias, RelativeBiasCache(bucket, table.shape[0], (queries, keys))


def relative_bias_backward(dbias: Array, cache: RelativeBiasCache) -> tuple[Array]:
    """Gradient (dtable (num_buckets, H),) of relative_bias_forward, given dbias (H, T, S)."""
    bucket, num_buckets, (queries, keys) = cache
    xp = namespace(dbias)
    rows = xp.reshape(xp.permute_dims(dbias, (1, 2, 0)), (queries * keys, dbias.shape[0]))  # (T·S, H)
    entries = xp.arange(num_buckets, dtype=xp.int64, device=device_of(dbias))
    one_hot = xp.astype(bucket[:, None] == entries, dbias.dtype)  # (T·S, num_buckets)
    return (xp.matmul(xp.matrix_transpose(one_hot), rows),)


def _buckets(like: Array, queries: int, keys: int, query_offset: int, causal: bool, max_distance: int) -> Array:
    """bucket (T, S), int64, on the device of like."""
    xp, device = namespace(like), device_of(like)
    query = xp.arange(queries, dtype=xp.int64, device=device) + query_offset
    ahead = xp.arange(keys, dtype=xp.int64, device=device)[None, :] - query[:, None]  # j − t
    zeros = xp.zeros_like(ahead)
    if causal:
        first, distance, share = zeros, xp.where(ahead < 0, -ahead, zeros), like.shape[0]
    else:
        share = like.shape[0] // 2
        first, distance = xp.where(ahead > 0, zeros + share, zeros), xp.where(ahead < 0, -ahead, ahead)
    exact = share // 2
    beyond = xp.where(distance < exact, zeros + exact, distance)
    ratio = xp.astype(beyond, xp.float64) / exact  # ≥ 1: its logarithm is no −∞
    far = exact + xp.astype(xp.log(ratio) / math.log(max_distance / exact) * (share - exact), xp.int64)
    far = xp.where(far < share - 1, far, zeros + share - 1)
    return first + xp.where(distance < exact, distance, far)


def expect_buckets(num_buckets: int, causal: bool, max_distance: int) -> None:
    """Raise ConfigError unless num_buckets and max_distance leave buckets for both small and large distances."""
    share = num_buckets if causal else num_buckets // 2
    if share < 2 or (not causal and num_buckets % 2):
        raise ConfigError(f"num_buckets: expected an even number >= 4 (>= 2 of any kind if causal), got {num_buckets}")
    if max_distance <= share // 2:
        raise ConfigError(
            f"max_distance: expected more than {share // 2}, as nearer ones have their own buckets, got {max_distance}"
        )


RELATIVE_BIAS = Operation(relative_bias_forward, relative_bias_backward, parameters=1)
