"""An encoder layer: tokens look at each other, then each thinks for itself.

    post-LN   x ← LN₁(x + Drop(SelfAttention(x)))      x ← LN₂(x + Drop(FeedForward(x)))
    pre-LN    x ← x + Drop(SelfAttention(LN₁(x)))      x ← x + Drop(FeedForward(LN₂(x)))

Each backward below is its forward read bottom-up: where a value was used twice, its two gradients
are added.

Source: post-LN, Vaswani et al. 2017, section 3.1; pre-LN, Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.layers.cache_stack import CacheStack, NoCache
from npformer.layers.call_tree import AttentionRecorder, RandomKey, child, draw
from npformer.layers.decode_state import LayerState
from npformer.layers.feed_forward import FeedForward
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.norms import about_tokens, make_norm
from npformer.layers.self_attention import SelfAttention
from npformer.typing import Array

NORM_ORDERS = ("post", "pre")
FULL = SelfAttention()


def expect_norm_order(norm_order: str) -> None:
    """Raise ConfigError unless norm_order is "post" or "pre"."""
    if norm_order not in NORM_ORDERS:
        raise ConfigError(f"norm_order: expected 'post' or 'pre', got {norm_order!r}")


class EncoderLayer(Layer):
    """Self-attention and feed-forward, each with a residual sum.

    norm_order is "post" or "pre", norm "layer" or "batch"; attention describes the self-attention.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        norm_order: str = "post",
        norm: str = "layer",
        activation: str = "relu",
        attention: SelfAttention = FULL,
        backend: Backend,
        seed: Seed = 0,
    ) -> None:
        super().__init__(backend)
        expect_norm_order(norm_order)
        rng = np.random.default_rng(seed)
        self.norm_order = norm_order
        self.dropout = dropout
        self.self_attention = attention.build(d_model, num_heads, dropout=dropout, backend=backend, seed=rng)
        self.norm1 = make_norm(norm, d_model, backend)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation=activation, dropout=dropout, backend=backend, seed=rng
        )
        self.norm2 = make_norm(norm, d_model, backend)

    def forward(
        self,
        x: Array,
        *,
        mask: AttentionMask = ALL_VISIBLE,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Array, CacheStack]:
        """x (B, S, C) to y (B, S, C); mask says which keys are visible."""
        cache = CacheStack(self)
        run = self._post if self.norm_order == "post" else self._pre
        return run(cache, x, mask, key, recorder), cache

    def start(self, batch: int, max_len: int) -> LayerState:
        """For decoding with causal masks: room for max_len tokens of each row."""
        return LayerState(self.self_attention.start(batch, max_len), None)

    def step(self, x: Array, state: LayerState, *, mask: AttentionMask) -> Array:
        """For decoding: x (B, n, C), the newest tokens, to y (B, n, C); mask.query_offset tokens came before."""
        run = self._post if self.norm_order == "post" else self._pre
        return run(NoCache(self), x, mask, None, None, state)

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, S, C) to dx (B, S, C)."""
        return self._post_backward(dy, cache) if self.norm_order == "post" else self._pre_backward(dy, cache)

    def _post(
        self,
        cache: CacheStack,
        x: Array,
        mask: AttentionMask,
        key: RandomKey | None,
        recorder: AttentionRecorder | None,
        state: LayerState | None = None,
    ) -> Array:
        tokens = about_tokens(mask, key)
        f = cache.keep(self._attend(x, mask, key, recorder, state))
        x = cache.keep(self.norm1.post_forward(x, f, draw(key, "self_attention_dropout", self.dropout), **tokens))
        f = cache.keep(self.feed_forward.forward(x, key=child(key, "feed_forward")))
        return cache.keep(self.norm2.post_forward(x, f, draw(key, "feed_forward_dropout", self.dropout), **tokens))

    def _post_backward(self, dy: Array, cache: CacheStack) -> Array:
        dx, df = self.norm2.post_backward(dy, cache.pop())
        dx = dx + self.feed_forward.backward(df, cache.pop())
        dx, df = self.norm1.post_backward(dx, cache.pop())
        return dx + self.self_attention.backward(df, cache.pop())

    def _pre(
        self,
        cache: CacheStack,
        x: Array,
        mask: AttentionMask,
        key: RandomKey | None,
        recorder: AttentionRecorder | None,
        state: LayerState | None = None,
    ) -> Array:
        tokens = about_tokens(mask, key)
        normed = cache.keep(self.norm1.forward(x, **tokens))
        f = cache.keep(self._attend(normed, mask, key, recorder, state))
        x, normed = cache.keep(
            self.norm2.pre_forward(x, f, draw(key, "self_attention_dropout", self.dropout), **tokens)
        )
        f = cache.keep(self.feed_forward.forward(normed, key=child(key, "feed_forward")))
        return cache.keep(self.ops.residual.forward(x, f, draw(key, "feed_forward_dropout", self.dropout)))

    def _pre_backward(self, dy: Array, cache: CacheStack) -> Array:
        dx, df = self.ops.residual.backward(dy, cache.pop())
        dnormed = self.feed_forward.backward(df, cache.pop())
        dx, df = self.norm2.pre_backward(dx, dnormed, cache.pop())
        dnormed = self.self_attention.backward(df, cache.pop())
        return dx + self.norm1.backward(dnormed, cache.pop())

    def _attend(
        self,
        x: Array,
        mask: AttentionMask,
        key: RandomKey | None,
        recorder: AttentionRecorder | None,
        state: LayerState | None,
    ) -> tuple[Array, CacheStack | None]:
        if state is not None:
            return self.self_attention.step(x, state.own, mask), None
        name = "self_attention"
        return self.self_attention.forward(x, mask=mask, key=child(key, name), recorder=child(recorder, name))
