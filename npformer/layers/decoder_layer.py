"""A decoder layer: tokens look at the past, then at the source, then each thinks for itself.

    post-LN   x ← LN₁(x + Drop(SelfAttention(x)))
              x ← LN₂(x + Drop(CrossAttention(x, memory)))
              x ← LN₃(x + Drop(FeedForward(x)))
    pre-LN    the same with x ← x + Drop(f(LN(x)))

Each backward is its forward read bottom-up. A step of decoding is the forward for the newest tokens
alone: the keys and values of those before, and of the memory, are remembered. The memory (the
encoder's output) is used by every decoder layer, so its gradients are added over the layers, in
``stacks.py``.

Source: post-LN, Vaswani et al. 2017, section 3.1; pre-LN, Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.backend import Backend
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.layers.cache_stack import CacheStack, NoCache
from npformer.layers.call_tree import AttentionRecorder, RandomKey, child, draw
from npformer.layers.decode_state import LayerState
from npformer.layers.encoder_layer import FULL, expect_norm_order
from npformer.layers.feed_forward import FeedForward
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.multi_head_attention import MultiHeadAttention
from npformer.layers.norms import about_tokens, make_norm
from npformer.layers.self_attention import SelfAttention
from npformer.typing import Array


class _Context(NamedTuple):
    """What all three sub-layers of one forward are given."""

    memory: Array  # (B, S, C); in a step, its keys and values are in the state
    mask: AttentionMask
    memory_mask: AttentionMask
    key: RandomKey | None = None
    recorder: AttentionRecorder | None = None
    state: LayerState | None = None  # given in a step of decoding


class DecoderLayer(Layer):
    """Self-attention, cross-attention and feed-forward, each with a residual sum.

    norm_order is "post" or "pre", norm "layer" or "batch"; attention describes the self-attention,
    that to the memory is full.
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
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout, backend=backend, seed=rng)
        self.norm2 = make_norm(norm, d_model, backend)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation=activation, dropout=dropout, backend=backend, seed=rng
        )
        self.norm3 = make_norm(norm, d_model, backend)

    def forward(
        self,
        x: Array,
        memory: Array,
        *,
        mask: AttentionMask = ALL_VISIBLE,
        memory_mask: AttentionMask = ALL_VISIBLE,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Array, CacheStack]:
        """x (B, T, C) and memory (B, S, C) to y (B, T, C).

        mask says which targets a target may look at (causal, in a Transformer), memory_mask which
        sources.
        """
        cache = CacheStack(self)
        run = self._post if self.norm_order == "post" else self._pre
        return run(cache, x, _Context(memory, mask, memory_mask, key, recorder)), cache

    def backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (B, T, C) to (dx (B, T, C), dmemory (B, S, C))."""
        return self._post_backward(dy, cache) if self.norm_order == "post" else self._pre_backward(dy, cache)

    def start(self, batch: int, max_len: int, memory: Array) -> LayerState:
        """For decoding: room for max_len targets of each row, and the memory (B, S, C) projected."""
        return LayerState(self.self_attention.start(batch, max_len), self.cross_attention.project_memory(memory))

    def step(self, x: Array, state: LayerState, *, mask: AttentionMask, memory_mask: AttentionMask) -> Array:
        """For decoding: x (B, n, C), the newest targets, to y (B, n, C); mask.query_offset tokens came before."""
        run = self._post if self.norm_order == "post" else self._pre
        return run(NoCache(self), x, _Context(None, mask, memory_mask, state=state))

    def _post(self, cache: CacheStack, x: Array, to: _Context) -> Array:
        tokens = about_tokens(to.mask, to.key)
        f = cache.keep(self._attend_self(x, to))
        x = cache.keep(self.norm1.post_forward(x, f, draw(to.key, "self_attention_dropout", self.dropout), **tokens))
        f = cache.keep(self._attend_memory(x, to))
        x = cache.keep(self.norm2.post_forward(x, f, draw(to.key, "cross_attention_dropout", self.dropout), **tokens))
        f = cache.keep(self.feed_forward.forward(x, key=child(to.key, "feed_forward")))
        return cache.keep(self.norm3.post_forward(x, f, draw(to.key, "feed_forward_dropout", self.dropout), **tokens))

    def _post_backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        dx, df = self.norm3.post_backward(dy, cache.pop())
        dx = dx + self.feed_forward.backward(df, cache.pop())
        dx, df = self.norm2.post_backward(dx, cache.pop())
        dquery, dmemory = self.cross_attention.backward(df, cache.pop())
        dx, df = self.norm1.post_backward(dx + dquery, cache.pop())
        return dx + self.self_attention.backward(df, cache.pop()), dmemory

    def _pre(self, cache: CacheStack, x: Array, to: _Context) -> Array:
        tokens = about_tokens(to.mask, to.key)
        normed = cache.keep(self.norm1.forward(x, **tokens))
        f = cache.keep(self._attend_self(normed, to))
        x, normed = cache.keep(
            self.norm2.pre_forward(x, f, draw(to.key, "self_attention_dropout", self.dropout), **tokens)
        )
        f = cache.keep(self._attend_memory(normed, to))
        x, normed = cache.keep(
            self.norm3.pre_forward(x, f, draw(to.key, "cross_attention_dropout", self.dropout), **tokens)
        )
        f = cache.keep(self.feed_forward.forward(normed, key=child(to.key, "feed_forward")))
        return cache.keep(self.ops.residual.forward(x, f, draw(to.key, "feed_forward_dropout", self.dropout)))

    def _pre_backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        dx, df = self.ops.residual.backward(dy, cache.pop())
        dnormed = self.feed_forward.backward(df, cache.pop())
        dx, df = self.norm3.pre_backward(dx, dnormed, cache.pop())
        dnormed, dmemory = self.cross_attention.backward(df, cache.pop())
        dx, df = self.norm2.pre_backward(dx, dnormed, cache.pop())
        dnormed = self.self_attention.backward(df, cache.pop())
        return dx + self.norm1.backward(dnormed, cache.pop()), dmemory

    def _attend_self(self, x: Array, to: _Context) -> tuple[Array, CacheStack | None]:
        if to.state is not None:
            return self.self_attention.step(x, to.state.own, to.mask), None
        name = "self_attention"
        return self.self_attention.forward(x, mask=to.mask, key=child(to.key, name), recorder=child(to.recorder, name))

    def _attend_memory(self, x: Array, to: _Context) -> tuple[Array, CacheStack | None]:
        if to.state is not None and to.state.memory is not None:
            return self.cross_attention.step_memory(x, to.state.memory, to.memory_mask), None
        name = "cross_attention"
        return self.cross_attention.forward(
            x, to.memory, mask=to.memory_mask, key=child(to.key, name), recorder=child(to.recorder, name)
        )
