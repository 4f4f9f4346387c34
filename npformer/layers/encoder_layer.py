"""An encoder layer: self-attention, then feed-forward.

    post-LN   x ← LN₁(x + Drop(SelfAttention(x)))      x ← LN₂(x + Drop(FeedForward(x)))
    pre-LN    x ← x + Drop(SelfAttention(LN₁(x)))      x ← x + Drop(FeedForward(LN₂(x)))

In steps (``layers/residual.py`` derives ``enter`` and ``join``):

                                             post-LN                    pre-LN
    1   h = enter(x)                         h = x                      h = LN₁(x)
    2   f = SelfAttention(h)
    3   x, h = join(x, f)                    x = h = LN₁(x + Drop(f))   x = x + Drop(f), h = LN₂(x)
    4   f = FeedForward(h)
    5   y = join(x, f)                       y = LN₂(x + Drop(f))       y = x + Drop(f)

Backward, the steps counted down. FeedForward'ᵀ is the backward of FeedForward, and so on. dtotal is the gradient of
the sum x + Drop(f): x receives dtotal, and f receives dtotal·keep·s, with dropout's mask and scale.

                                             post-LN                    pre-LN
    5   dtotal =                             LN₂'ᵀ dy                   dy
        dx, df = dtotal, dtotal·keep·s
    4   dh = FeedForward'ᵀ df
    3   dtotal =                             LN₁'ᵀ(dx + dh)             dx + LN₂'ᵀ dh
        dx, df = dtotal, dtotal·keep·s
    2   dh = SelfAttention'ᵀ df
    1   dx =                                 dx + dh                    dx + LN₁'ᵀ dh

Steps 3 and 1 add two gradients, because x was used twice: by the next join, which gives back dx, and by the sub-layer,
in pre-LN through a norm, which gives back dh. In post-LN the code makes the sum dx + dh a step earlier, in
``branch_backward``. In step 2, h was query, key and value, and the attention adds those three gradients. The sub-layers
and the norms add the gradients of their own parameters. Without dropout, the whole post-LN layer is

    dtotal₂ = LN₂'ᵀ dy
    dtotal₁ = LN₁'ᵀ(dtotal₂ + FeedForward'ᵀ dtotal₂)
    dx      = dtotal₁ + SelfAttention'ᵀ dtotal₁

Source: post-LN, Vaswani et al. 2017, section 3.1; pre-LN, Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.decode_state import LayerState
from npformer.layers.feed_forward import FeedForward
from npformer.layers.initializers import Seed
from npformer.layers.norms import make_norm
from npformer.layers.residual import ResidualLayer
from npformer.layers.self_attention import SelfAttention
from npformer.typing import Array

FULL = SelfAttention()


class EncoderLayer(ResidualLayer):
    """Self-attention and feed-forward, each with a residual sum.

    norm_order is "post" or "pre", norm "layer" or "batch"; attention describes the self-attention.
    """

    static = True
    branches = True

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
        super().__init__(norm_order, dropout, backend)
        rng = np.random.default_rng(seed)
        self.self_attention = attention.build(d_model, num_heads, dropout=dropout, backend=backend, seed=rng)
        self.norm1 = make_norm(norm, d_model, backend)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation=activation, dropout=dropout, backend=backend, seed=rng
        )
        self.norm2 = make_norm(norm, d_model, backend)

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (B, S, C) to y (B, S, C)."""
        cache, (at_entry, after_attention, at_end) = CacheStack(self), self.places(self.norm1, self.norm2)
        attention, feed_forward = context.child("self_attention"), context.child("feed_forward")
        h = cache.keep(self.enter(x, at_entry, context))  # 1. (B, S, C)
        f = cache.keep(self.self_attention.forward(h, context=attention))  # 2. (B, S, C)
        x, h = cache.keep(self.join(x, f, "self_attention", after_attention, context))  # 3. (B, S, C) each
        f = cache.keep(self.feed_forward.forward(h, context=feed_forward))  # 4. (B, S, C)
        y, _ = cache.keep(self.join(x, f, "feed_forward", at_end, context))  # 5. (B, S, C)
        return y, cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, S, C) to dx (B, S, C)."""
        dx, df = self.join_backward(dy, None, cache.pop())  # back through 5
        dx, dh = self.branch_backward(dx, self.feed_forward.backward(df, cache.pop()))  # back through 4
        dx, df = self.join_backward(dx, dh, cache.pop())  # back through 3
        dx, dh = self.branch_backward(dx, self.self_attention.backward(df, cache.pop()))  # back through 2
        return self.enter_backward(dx, dh, cache.pop())  # back through 1

    def start(self, batch: int, max_len: int) -> LayerState:
        """For decoding with causal masks: a state with room for max_len tokens per row."""
        return LayerState(self.self_attention.start(batch, max_len), None)

    def step(self, x: Array, state: LayerState, context: Context) -> Array:
        """For decoding: x (B, n, C), the newest tokens, to y (B, n, C); mask.query_offset tokens came before."""
        at_entry, after_attention, at_end = self.places(self.norm1, self.norm2)
        h, _ = self.enter(x, at_entry, context)
        f = self.self_attention.step(h, state.past, context.mask)
        (x, h), _ = self.join(x, f, "self_attention", after_attention, context)
        f, _ = self.feed_forward.forward(h, context=context)
        return self.join(x, f, "feed_forward", at_end, context)[0][0]
