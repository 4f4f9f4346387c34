"""The arguments of the attention kernels: heads with their strides, the mask's parameters, the dropout draw."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from npformer.engine.cuda.device_runtime import NOTHING_DROPPED, DeviceRuntime, Drawn, drawn
from npformer.functional.attention_mask import AttentionMask, expect_key_visible
from npformer.functional.philox import Draw
from npformer.typing import Array


class Pattern(NamedTuple):
    """An AttentionMask as kernel arguments: the parameters PATTERN of ``attention.cuh``, in their order."""

    visible: Array | None  # (B, S), row-major
    causal: bool
    offset: int
    window: int  # 0: none
    stride: int  # 0: none


class AttentionArguments(NamedTuple):
    """Queries, keys and values, whose last axes are contiguous, with the mask and the draw."""

    q: Array  # (B, H, T, D)  kept: to recompute the weights, or for dk
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    pattern: Pattern
    draw: Drawn
    factor: float  # 1/√D

    @staticmethod
    def of(
        gpu: DeviceRuntime, q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None
    ) -> AttentionArguments:
        """Raises ShapeError or DTypeError if the mask does not fit the batch, ConfigError for a bad dropout rate."""
        batch, keys = k.shape[0], k.shape[2]
        visible = mask.key_visible
        if visible is not None:
            expect_key_visible(visible, batch, keys)
            visible = gpu.contiguous(visible)
        pattern = Pattern(visible, mask.causal, mask.query_offset, mask.window or 0, mask.stride or 0)
        numbers = NOTHING_DROPPED
        if draw is not None:
            numbers = drawn(draw, _Weights((*q.shape[:3], keys)))
        q, k, v = (with_neighbours(gpu, x) for x in (q, k, v))
        return AttentionArguments(q, k, v, pattern, numbers, 1 / math.sqrt(max(1, q.shape[-1])))

    def gradients(self, gpu: DeviceRuntime) -> tuple[Array, Array, Array]:
        """Empty dq, dk and dv: adjacent columns of one array if q, k and v were (as far as their strides show)."""
        _, heads, queries, width = self.q.shape
        keys, tokens = self.k.shape[2], heads * width * self.q.dtype.itemsize
        rows = [x.strides[2] // tokens if tokens and x.strides[2] % tokens == 0 else 0 for x in self[:3]]
        if rows == [3, 3, 3] and queries == keys:
            dq, dk, dv = side_by_side(gpu, 3, self.q)
            return dq, dk, dv
        (dq,) = side_by_side(gpu, 1, self.q)
        if rows[1:] == [2, 2]:
            dk, dv = side_by_side(gpu, 2, self.k)
        else:
            (dk,), (dv,) = side_by_side(gpu, 1, self.k), side_by_side(gpu, 1, self.v)
        return dq, dk, dv


class _Weights(NamedTuple):
    """The shape of the weights, all that a draw needs; the array itself need not exist."""

    shape: tuple[int, int, int, int]  # (B, H, T, S)


def side_by_side(gpu: DeviceRuntime, count: int, like: Array) -> tuple[Array, ...]:
    """count arrays (B, H, T, D) in the memory order (B, T, count·C), so that merging their heads needs no copy."""
    batch, heads, length, width = like.shape
    block = gpu.empty((batch, length, count, heads, width), like.dtype)
    return tuple(block[:, :, i].transpose(0, 2, 1, 3) for i in range(count))


def with_neighbours(gpu: DeviceRuntime, x: Array) -> Array:
    """x, or a copy of it whose last axis is contiguous."""
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.dtype.itemsize else gpu.contiguous(x)


def strided(*heads: Array) -> tuple[Any, ...]:
    """Each of these as the parameters HEADS of ``attention.cuh``: its address, and all strides except the last."""
    return tuple(part for x in heads for part in (x, *(step // x.dtype.itemsize for step in x.strides[:3])))
