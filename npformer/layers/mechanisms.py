"""Attention mechanisms: how queries attend to keys inside a head. ``MultiHeadAttention`` takes any of them.

    ScaledDotProduct   softmax(Q Kᵀ/√D + bias) V        every query looks at every key: the cost grows as T·S
    Local              the same along a window w, a stride, or both: T·w, T²/stride, or their sum
    LinearAttention    φ(Q) (φ(K)ᵀ V)/(φ(Q) Σ φ(k)ᵀ)    summed over keys first: T + S

A mechanism has no parameters. For decoding it defines the ``Past`` that it keeps of earlier tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from npformer.backend import Backend, Ops
from npformer.errors import ConfigError
from npformer.functional import AttentionMask, Draw, attention_weights, biased_attention_weights
from npformer.functional.arrays import device_of, namespace
from npformer.functional.linear_attention import linear_attention_step, linear_attention_weights
from npformer.layers.decode_state import KeyValues, Moves
from npformer.layers.owner import Owner
from npformer.typing import Array


class Mechanism(Protocol):
    """How queries (B, H, T, D) attend to keys and values (B, H, S, D), with or without a bias (H, T, S)."""

    takes_bias: bool  # whether it has scores to which a bias can be added

    def forward(
        self, ops: Ops, q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None, bias: Array | None
    ) -> tuple[Array, Any]:
        """Returns (out (B, H, T, D), cache)."""

    def backward(self, ops: Ops, dout: Array, cache: Any) -> tuple[Array, Array, Array, Array | None]:
        """Gradients (dq, dk, dv, dbias); dbias is None if there was no bias."""

    def weights(self, q: Array, k: Array, mask: AttentionMask, bias: Array | None) -> Array:
        """The attention weights (B, H, T, S) before dropout, for inspection."""

    def start(self, backend: Backend, batch: int, heads: int, max_len: int, width: int) -> Any:
        """For decoding: an empty ``Past`` with room for max_len keys and values (B, H, ·, D = width)."""

    def step(self, ops: Ops, q: Array, k: Array, v: Array, past: Any, mask: AttentionMask, bias: Array | None) -> Array:
        """Add k, v (B, H, n, D), from position mask.query_offset on, to past; returns q's out (B, H, n, D)."""


class ScaledDotProduct(Owner):
    """softmax(QKᵀ/√D + bias) V, the mechanism of Vaswani et al. 2017."""

    static = True
    takes_bias = True

    def forward(
        self, ops: Ops, q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None, bias: Array | None
    ) -> tuple[Array, Any]:
        if bias is None:
            out, cache = ops.attention.forward(q, k, v, mask, draw)
        else:
            out, cache = ops.biased_attention.forward(q, k, v, bias, mask, draw)
        return out, (bias is not None, cache)

    def backward(self, ops: Ops, dout: Array, cache: Any) -> tuple[Array, Array, Array, Array | None]:
        biased, cache = cache
        if not biased:
            return (*ops.attention.backward(dout, cache), None)
        dq, dk, dv, dbias = ops.biased_attention.backward(dout, cache)
        return dq, dk, dv, dbias

    def weights(self, q: Array, k: Array, mask: AttentionMask, bias: Array | None) -> Array:
        return attention_weights(q, k, mask) if bias is None else biased_attention_weights(q, k, bias, mask)

    def start(self, backend: Backend, batch: int, heads: int, max_len: int, width: int) -> KeyValues:
        return KeyValues.empty(backend, batch, heads, max_len, width)

    def step(
        self, ops: Ops, q: Array, k: Array, v: Array, past: KeyValues, mask: AttentionMask, bias: Array | None
    ) -> Array:
        keys, values = past.write(mask.query_offset, k, v)
        return self.forward(ops, q, keys, values, mask, None, bias)[0]


@dataclass(frozen=True)
class Local(ScaledDotProduct):
    """Attention to the keys of a window, of a stride, or of both. Raises ConfigError for neither, or one < 1."""

    static = True

    window: int | None = None
    stride: int | None = None
    takes_bias = False

    def __post_init__(self) -> None:
        if self.window is None and self.stride is None:
            raise ConfigError("window, stride: expected at least one of them for local attention, got none")
        AttentionMask(window=self.window, stride=self.stride)  # refuses what is < 1

    def forward(
        self, ops: Ops, q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None, bias: Array | None
    ) -> tuple[Array, Any]:
        return ops.local_attention.forward(q, k, v, self._narrow(mask), draw)

    def backward(self, ops: Ops, dout: Array, cache: Any) -> tuple[Array, Array, Array, Array | None]:
        return (*ops.local_attention.backward(dout, cache), None)

    def weights(self, q: Array, k: Array, mask: AttentionMask, bias: Array | None) -> Array:
        return attention_weights(q, k, self._narrow(mask))

    def step(
        self, ops: Ops, q: Array, k: Array, v: Array, past: KeyValues, mask: AttentionMask, bias: Array | None
    ) -> Array:
        offset = mask.query_offset
        keys, values = past.write(offset, k, v)
        first = 0 if self.stride is not None or self.window is None else max(0, offset - self.window + 1)
        near = None if mask.key_visible is None else mask.key_visible[:, first:]
        nearer = replace(self._narrow(mask), key_visible=near, query_offset=offset - first)
        return ops.attention.forward(q, keys[:, :, first:, :], values[:, :, first:, :], nearer, None)[0]

    def _narrow(self, mask: AttentionMask) -> AttentionMask:
        return replace(mask, window=self.window, stride=self.stride)


@dataclass
class AttentionSums:
    """Σ φ(k)ᵀ v' over the keys so far: the past of linear attention, whose size does not grow.

    The sums before the newest tokens are kept, so that an interrupted step can be repeated.
    """

    before: Array  # (B, H, D, D+1)  over the keys before position
    state: Array  # (B, H, D, D+1)  over these and the newest
    position: int = 0

    def up_to(self, position: int) -> Array:
        """The sums over the keys before position, which is the last position asked for, or the end."""
        if position != self.position:
            self.before, self.position = self.state, position
        return self.before

    def select(self, rows: Array, length: int) -> AttentionSums:
        chosen = namespace(self.state).take(self.up_to(length), rows, axis=0)
        return AttentionSums(chosen, chosen, length)

    def reorder(self, moves: Moves, length: int) -> AttentionSums:
        xp, sums = namespace(self.state), self.up_to(length)
        self.before = self.state = xp.take(sums, xp.asarray(moves.rows, device=device_of(sums)), axis=0)
        return self


class LinearAttention(Owner):
    """φ(Q) (φ(K)ᵀ V) / (φ(Q) Σφ(k)) with φ = elu + 1. There are no weights of single pairs, hence no dropout."""

    static = True
    takes_bias = False

    def forward(
        self, ops: Ops, q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None, bias: Array | None
    ) -> tuple[Array, Any]:
        return ops.linear_attention.forward(q, k, v, mask)

    def backward(self, ops: Ops, dout: Array, cache: Any) -> tuple[Array, Array, Array, Array | None]:
        return (*ops.linear_attention.backward(dout, cache), None)

    def weights(self, q: Array, k: Array, mask: AttentionMask, bias: Array | None) -> Array:
        return linear_attention_weights(q, k, mask)

    def start(self, backend: Backend, batch: int, heads: int, max_len: int, width: int) -> AttentionSums:
        zeros = backend.zeros((batch, heads, width, width + 1))
        return AttentionSums(zeros, zeros)

    def step(
        self, ops: Ops, q: Array, k: Array, v: Array, past: AttentionSums, mask: AttentionMask, bias: Array | None
    ) -> Array:
        out, past.state = linear_attention_step(q, k, v, past.up_to(mask.query_offset), mask)
        return out
