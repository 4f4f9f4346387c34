"""Local and strided patterns: queries and keys that may meet are gathered into small blocks, without any (T, T) array.

A pattern cuts a sequence of T positions into G blocks of R queries, (B, H, G, R, D), gathers for each block the
M keys that it may look at, (B, H, G, M, D), and returns the rows of the blocks (scores (B, H, G, R, M) or
outputs) to the order of the positions, (B, H, T, M). Each step only moves, copies or drops numbers. So its
backward moves them back, and adds up the gradients of copies.

    Window w      blocks of w queries; keys of the previous block, the block itself and the next one: M = 3w
                  (causal: without the next one, M = 2w)
    Stride        positions that are equal modulo the stride form a block: M = ⌈T/stride⌉

Source: windows, Beltagy et al. 2020, arXiv:2004.05150; strides, Child et al. 2019, arXiv:1904.10509.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array


class Window(NamedTuple):
    """Neighbouring positions: |distance| < size."""

    size: int
    causal: bool

    def blocks(self, x: Array) -> Array:
        """x (B, H, T, D) as (B, H, G, R = size, D), filled up with zeros."""
        return _folded(x, self.size)

    def rows(self, blocks: Array, length: int) -> Array:
        """Back: (B, H, G, R, M) as (B, H, T, M); it is the transpose of ``blocks``."""
        return _unfolded(blocks, length)

    def keys(self, x: Array) -> Array:
        """The keys (B, H, G, M, D) of each block, of x (B, H, T, D)."""
        x = self.blocks(x)
        xp = namespace(x)
        zeros = xp.zeros_like(x[:, :, :1, :, :])
        before = xp.concat([zeros, x[:, :, :-1, :, :]], axis=2)
        if self.causal:
            return xp.concat([before, x], axis=3)
        return xp.concat([before, x, xp.concat([x[:, :, 1:, :, :], zeros], axis=2)], axis=3)

    def keys_backward(self, dkeys: Array, length: int) -> Array:
        """dx (B, H, T, D): each position was a key of two or three blocks."""
        xp, size = namespace(dkeys), self.size
        zeros = xp.zeros_like(dkeys[:, :, :1, :size, :])
        dx = dkeys[:, :, :, size : 2 * size, :] + xp.concat([dkeys[:, :, 1:, :size, :], zeros], axis=2)
        if not self.causal:
            dx = dx + xp.concat([zeros, dkeys[:, :, :-1, 2 * size :, :]], axis=2)
        return self.rows(dx, length)

    def positions(self, length: int, like: Array) -> Array:
        """Where the keys of each query stand, (T, M) int64; outside 0 … T − 1 there is none."""
        xp, device = namespace(like), device_of(like)
        query = xp.arange(length, dtype=xp.int64, device=device)
        column = xp.arange((2 if self.causal else 3) * self.size, dtype=xp.int64, device=device)
        return ((query // self.size - 1) * self.size)[:, None] + column[None, :]


class Stride(NamedTuple):
    """Every size-th position: distance divisible by size."""

    size: int

    def blocks(self, x: Array) -> Array:
        """x (B, H, T, D) as (B, H, G = size, R = ⌈T/size⌉, D), filled up with zeros."""
        return namespace(x).permute_dims(_folded(x, self.size), (0, 1, 3, 2, 4))

    def rows(self, blocks: Array, length: int) -> Array:
        """Back: (B, H, G, R, M) as (B, H, T, M); it is the transpose of ``blocks``."""
        return _unfolded(namespace(blocks).permute_dims(blocks, (0, 1, 3, 2, 4)), length)

    def keys(self, x: Array) -> Array:
        """The keys (B, H, G, M, D) of each block: its own positions."""
        return self.blocks(x)

    def keys_backward(self, dkeys: Array, length: int) -> Array:
        """dx (B, H, T, D)."""
        return self.rows(dkeys, length)

    def positions(self, length: int, like: Array) -> Array:
        """Where the keys of each query stand, (T, M) int64; outside 0 … T − 1 there is none."""
        xp, device = namespace(like), device_of(like)
        query = xp.arange(length, dtype=xp.int64, device=device)
        column = xp.arange(-(-length // self.size), dtype=xp.int64, device=device)
        return (query % self.size)[:, None] + column[None, :] * self.size


def _folded(x: Array, size: int) -> Array:
    """x (B, H, T, D) as (B, H, ⌈T/size⌉, size, D), padded with zeros at the end where size does not divide T."""
    xp, missing = namespace(x), -x.shape[2] % size
    if missing:
        filling = xp.zeros((*x.shape[:2], missing, x.shape[3]), dtype=x.dtype, device=device_of(x))
        x = xp.concat([x, filling], axis=2)
    return xp.reshape(x, (*x.shape[:2], x.shape[2] // size, size, x.shape[3]))


def _unfolded(blocks: Array, length: int) -> Array:
    """Back: (B, H, G, R, M) as (B, H, T, M)."""
    batch, heads, count, size, width = blocks.shape
    return namespace(blocks).reshape(blocks, (batch, heads, count * size, width))[:, :, :length, :]
