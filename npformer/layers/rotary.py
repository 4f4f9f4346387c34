"""Rotary position embedding (RoPE) as a part of attention: it rotates queries and keys, and has no parameters."""

from __future__ import annotations

from typing import Any

from npformer.backend import Ops
from npformer.layers.owner import Owner
from npformer.typing import Array


class Rotary(Owner):
    """Rotates the heads (B, H, T, D) of queries and keys by their position; D must be even."""

    static = True

    def __init__(self, base: float = 10000.0) -> None:
        self.base = base

    def forward(self, ops: Ops, x: Array, start: int = 0) -> tuple[Array, Any]:
        """x (B, H, T, D), its tokens at start, start + 1, …, to y (B, H, T, D)."""
        return ops.rotary.forward(x, start, self.base)

    def backward(self, ops: Ops, dy: Array, cache: Any) -> Array:
        """dy (B, H, T, D) to dx (B, H, T, D)."""
        return ops.rotary.backward(dy, cache)
