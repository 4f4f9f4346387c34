"""Attention masks: which query may look at which key, described by a few numbers instead of a (T, S) array.

Query i is at position i + query_offset (decoding continues at an offset), key j at position j.
With d = i + query_offset − j, the distance back from query to key:

    causal      d ≥ 0                      no key lies in the future
    window w    d < w, if not causal |d| < w
    stride      d divisible by stride      together with a window: either one suffices
    key_visible key_visible[b, j]          True = this key may be looked at

All conditions that are given must hold; window and stride count as one condition. The mask
is not a term added to the scores: a hidden pair gets weight exactly 0.

Source: causal, Vaswani et al. 2017, section 3.2.3; strided, Child et al. 2019, arXiv:1904.10509.
"""

from __future__ import annotations

from dataclasses import dataclass

from npformer.errors import ConfigError, DTypeError
from npformer.functional.arrays import device_of, expect_shape, namespace
from npformer.typing import Array


@dataclass(frozen=True)
class AttentionMask:
    """See the module's docstring; the default hides nothing. Raises ConfigError for a window or stride < 1."""

    key_visible: Array | None = None  # (B, S) boolean, True = this key may be looked at
    causal: bool = False
    query_offset: int = 0
    window: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("window", self.window), ("stride", self.stride)):
            if value is not None and value < 1:
                raise ConfigError(f"{name}: expected an integer >= 1 or None, got {value}")
        if self.query_offset < 0:
            raise ConfigError(f"query_offset: expected an integer >= 0, got {self.query_offset}")

    def visible(self, queries: int, keys: int, like: Array) -> Array | None:
        """The pairs that may meet, boolean, broadcastable to (B, H, T, S); None if all may.

        like (B, …) gives the batch size and the device. Raises ShapeError if key_visible is
        not (B, S) with S = keys, DTypeError if it is not boolean.
        """
        pattern = self._pattern(queries, keys, like)  # (T, S)
        if self.key_visible is None:
            return pattern
        expect_key_visible(self.key_visible, like.shape[0], keys)
        by_key = self.key_visible[:, None, None, :]  # (B, 1, 1, S)
        return by_key if pattern is None else by_key & pattern

    def _pattern(self, queries: int, keys: int, like: Array) -> Array | None:
        """The part that depends on positions alone, (T, S); None if all pairs may meet."""
        if not self.causal and self.window is None and self.stride is None:
            return None
        xp, device = namespace(like), device_of(like)
        query = xp.arange(queries, device=device) + self.query_offset
        back = query[:, None] - xp.arange(keys, device=device)[None, :]  # (T, S)
        near = None
        if self.window is not None:
            near = (back < self.window) & (back > -self.window)
        if self.stride is not None:
            on_stride = back % self.stride == 0
            near = on_stride if near is None else near | on_stride
        if not self.causal:
            return near
        return back >= 0 if near is None else near & (back >= 0)


def expect_key_visible(key_visible: Array, batch: int, keys: int) -> None:
    """Raise ShapeError or DTypeError unless key_visible is (B, S) booleans."""
    expect_shape("key_visible", key_visible, "(B, S)", batch, keys)
    if not namespace(key_visible).isdtype(key_visible.dtype, "bool"):
        raise DTypeError(
            f"key_visible: expected booleans, True = this key may be looked at, got {key_visible.dtype}; "
            "a mask of scores to be added (0 or -inf) becomes one by mask == 0"
        )


#: Hides nothing.
ALL_VISIBLE = AttentionMask()
