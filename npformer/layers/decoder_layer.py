"""A decoder layer: self-attention of the targets, cross-attention to the source, and feed-forward.

    post-LN   x ← LN₁(x + Drop(SelfAttention(x)))
              x ← LN₂(x + Drop(CrossAttention(x, memory)))
              x ← LN₃(x + Drop(FeedForward(x)))
    pre-LN    the same with x ← x + Drop(SubLayer(LN(x)))

memory is the encoder's output. In steps (``layers/residual.py`` derives ``enter`` and ``join``):

                                              post-LN                    pre-LN
    1   h = enter(x)                          h = x                      h = LN₁(x)
    2   f = SelfAttention(h)
    3   x, h = join(x, f)                     x = h = LN₁(x + Drop(f))   x = x + Drop(f), h = LN₂(x)
    4   f = CrossAttention(h, memory)
    5   x, h = join(x, f)                     x = h = LN₂(x + Drop(f))   x = x + Drop(f), h = LN₃(x)
    6   f = FeedForward(h)
    7   y = join(x, f)                        y = LN₃(x + Drop(f))       y = x + Drop(f)

Backward, the steps counted down. FeedForward'ᵀ is the backward of FeedForward, and so on. dtotal is the gradient of
the sum x + Drop(f): x receives dtotal, and f receives dtotal·keep·s, with dropout's mask and scale.

                                              post-LN                    pre-LN
    7   dtotal =                              LN₃'ᵀ dy                   dy
        dx, df = dtotal, dtotal·keep·s
    6   dh = FeedForward'ᵀ df
    5   dtotal =                              LN₂'ᵀ(dx + dh)             dx + LN₃'ᵀ dh
        dx, df = dtotal, dtotal·keep·s
    4   dh, dmemory = CrossAttention'ᵀ df
    3   dtotal =                              LN₁'ᵀ(dx + dh)             dx + LN₂'ᵀ dh
        dx, df = dtotal, dtotal·keep·s
    2   dh = SelfAttention'ᵀ df
    1   dx =                                  dx + dh                    dx + LN₁'ᵀ dh

Steps 5, 3 and 1 add two gradients, because x was used twice: by the next join, which gives back dx, and by the
sub-layer, in pre-LN through a norm, which gives back dh. In post-LN the code makes the sum dx + dh a step earlier, in
``branch_backward``. In step 4, h gave the queries, and memory the keys and the values: two inputs, two gradients. The
sub-layers and the norms add the gradients of their own parameters.

dmemory (B, S, C) goes into no further step of this layer: it is returned beside dx. Every decoder layer read the same
memory, so ``layers/stacks.py`` adds dmemory over the layers, and the sum is the gradient of the encoder's output. In
post-LN and without dropout, the whole backward is

    dtotal₃     = LN₃'ᵀ dy
    dtotal₂     = LN₂'ᵀ(dtotal₃ + FeedForward'ᵀ dtotal₃)
    dh, dmemory = CrossAttention'ᵀ dtotal₂
    dtotal₁     = LN₁'ᵀ(dtotal₂ + dh)
    dx          = dtotal₁ + SelfAttention'ᵀ dtotal₁

A step of decoding is the forward for the newest tokens alone: the keys and values of those before, and of the memory,
are remembered.

Source: post-LN, Vaswani et al. 2017, section 3.1; pre-LN, Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.decode_state import LayerState
from npformer.layers.encoder_layer import FULL
from npformer.layers.feed_forward import FeedForward
from npformer.layers.initializers import Seed
from npformer.layers.multi_head_attention import MultiHeadAttention
from npformer.layers.norms import Norm, make_norm
from npformer.layers.residual import ResidualLayer
from npformer.layers.self_attention import SelfAttention
from npformer.typing import Array


class DecoderLayer(ResidualLayer):
    """Self-attention, cross-attention and feed-forward, each with a residual sum.

    norm_order is "post" or "pre", norm "layer" or "batch". attention describes the self-attention;
    cross-attention is always full attention.
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
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout, backend=backend, seed=rng)
        self.norm2 = make_norm(norm, d_model, backend)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation=activation, dropout=dropout, backend=backend, seed=rng
        )
        self.norm3 = make_norm(norm, d_model, backend)

    def forward(self, x: Array, memory: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (B, T, C) and memory (B, S, C) to y (B, T, C).

        context.mask says which targets a target may look at (causal in a Transformer), memory_mask which source tokens.
        """
        cache, (at_entry, after_self, after_cross, at_end) = CacheStack(self), self._places()
        names = "self_attention", "cross_attention", "feed_forward"
        self_attention, cross_attention, feed_forward = map(context.child, names)
        h = cache.keep(self.enter(x, at_entry, context))  # 1. (B, T, C)
        f = cache.keep(self.self_attention.forward(h, context=self_attention))  # 2. (B, T, C)
        x, h = cache.keep(self.join(x, f, "self_attention", after_self, context))  # 3. (B, T, C) each
        f = cache.keep(self.cross_attention.forward(h, memory, context=cross_attention))  # 4. (B, T, C)
        x, h = cache.keep(self.join(x, f, "cross_attention", after_cross, context))  # 5. (B, T, C) each
        f = cache.keep(self.feed_forward.forward(h, context=feed_forward))  # 6. (B, T, C)
        y, _ = cache.keep(self.join(x, f, "feed_forward", at_end, context))  # 7. (B, T, C)
        return y, cache

    def backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (B, T, C) to (dx (B, T, C), dmemory (B, S, C))."""
        dx, df = self.join_backward(dy, None, cache.pop())  # back through 7
        dx, dh = self.branch_backward(dx, self.feed_forward.backward(df, cache.pop()))  # back through 6
        dx, df = self.join_backward(dx, dh, cache.pop())  # back through 5
        dh, dmemory = self.cross_attention.backward(df, cache.pop())  # back through 4
        dx, dh = self.branch_backward(dx, dh)  # in post-LN dx + dh
        dx, df = self.join_backward(dx, dh, cache.pop())  # back through 3
        dx, dh = self.branch_backward(dx, self.self_attention.backward(df, cache.pop()))  # back through 2
        return self.enter_backward(dx, dh, cache.pop()), dmemory  # back through 1

    def start(self, batch: int, max_len: int, memory: Array) -> LayerState:
        """For decoding: a state with room for max_len targets per row and the projected memory (B, S, C)."""
        return LayerState(self.self_attention.start(batch, max_len), self.cross_attention.project_memory(memory))

    def step(self, x: Array, state: LayerState, context: Context) -> Array:
        """For decoding: x (B, n, C), the newest targets, to y (B, n, C); mask.query_offset tokens came before."""
        at_entry, after_self, after_cross, at_end = self._places()
        h, _ = self.enter(x, at_entry, context)
        f = self.self_attention.step(h, state.past, context.mask)
        (x, h), _ = self.join(x, f, "self_attention", after_self, context)
        assert state.memory is not None  # start projected it
        f = self.cross_attention.step_memory(h, state.memory, context.memory_mask)
        (x, h), _ = self.join(x, f, "cross_attention", after_cross, context)
        f, _ = self.feed_forward.forward(h, context=context)
        return self.join(x, f, "feed_forward", at_end, context)[0][0]

    def _places(self) -> tuple[Norm | None, ...]:
        return self.places(self.norm1, self.norm2, self.norm3)
