"""Attention masks as upper bounds of the scores: +inf for a visible pair, -inf for a hidden one.

The minimum of a score and its bound is the score, or -inf for a hidden pair, in one pass. The values
at hidden positions then change no bit of any result.

The part that depends only on positions is cached for the next call. key_visible is left out if
every key is visible, which one pass over (B, S) tells.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from npformer.functional.attention_mask import AttentionMask
from npformer.typing import Array, HostArray


def score_caps(mask: AttentionMask, queries: int, keys: int, like: Array) -> HostArray | None:
    """+inf where a pair may meet, else -inf, in like's dtype, broadcastable to (B, H, T, S); None if all may.

    Raises what ``AttentionMask.visible`` raises.
    """
    pattern: HostArray | None = None  # (T, S)
    if mask.causal or mask.window is not None or mask.stride is not None:
        pattern = _pattern(mask.causal, mask.query_offset, mask.window, mask.stride, queries, keys, like.dtype)
    if mask.key_visible is None:
        return pattern
    by_key: Any = AttentionMask(mask.key_visible).visible(queries, keys, like)  # (B, 1, 1, S)
    if by_key.all():
        return pattern
    caps = _caps(by_key, like.dtype)
    return caps if pattern is None else np.minimum(caps, pattern)


@lru_cache(maxsize=8)
def _pattern(
    causal: bool, query_offset: int, window: int | None, stride: int | None, queries: int, keys: int, dtype: Any
) -> HostArray | None:
    """The part of a mask that depends on positions alone, (T, S), read-only; None if all pairs may meet."""
    visible = AttentionMask(None, causal, query_offset, window, stride).visible(queries, keys, np.empty(0))
    assert visible is not None
    if visible.all():
        return None
    caps = _caps(visible, dtype)
    caps.flags.writeable = False
    return caps


def _caps(visible: Array, dtype: Any) -> HostArray:
    caps: HostArray = np.where(visible, dtype.type(np.inf), dtype.type(-np.inf))
    return caps
