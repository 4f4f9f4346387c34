"""Stacks: L layers of the same kind in sequence, and for pre-LN a final norm.

    encoder   1   x ← layer_l(x)            l = 0 … L−1          (B, S, C)
              2   y = LN(x)                 if there is a final norm
    decoder   1   x ← layer_l(x, memory)    l = 0 … L−1          (B, T, C); memory (B, S, C) is the same for all
              2   y = LN(x)

Backward, the steps counted down:

    2   dx = LN'ᵀ dy                        dx = dy without a final norm
    1   dx ← layer_l'ᵀ dx                   l = L−1 … 0, each with the cache of its own forward
        dmemory = Σ_l dmemory_l             in the decoder, where layer_l'ᵀ returns dx and dmemory_l

The memory was used L times, once by each decoder layer, so its gradient is a sum of L terms. The encoder's
backward begins with that sum and receives no other gradient. The output of a pre-LN stack without a final norm
is a sum that grows with depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.decode_state import LayerState
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.norms import Norm, make_norm
from npformer.typing import Array


class _Stack(Layer):
    """The common part of both stacks: layers of one class, a final norm or none, forward and the steps of decoding.

    A decoder's layers also read a memory (B, S, C); an encoder's are given none.
    """

    layer_class: type[EncoderLayer | DecoderLayer]

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        *,
        final_norm: bool | None = None,
        recompute: bool = False,
        backend: Backend,
        seed: Seed = 0,
        **layer_options: Any,
    ) -> None:
        super().__init__(backend)
        rng = np.random.default_rng(seed)
        self.layers: tuple[Any, ...] = tuple(
            self.layer_class(d_model, backend=backend, seed=rng, **layer_options) for _ in range(num_layers)
        )
        self.recompute = recompute
        has_norm = layer_options.get("norm_order") == "pre" if final_norm is None else final_norm
        self.norm: Norm | None = make_norm(layer_options.get("norm", "layer"), d_model, backend) if has_norm else None

    def __call__(self, *inputs: Array, **options: Any) -> Array:
        return self.forward(*inputs, **options, cache=CacheStack(self, inference=True))[0]

    def forward(
        self, x: Array, *memory: Array, context: Context = INFERENCE, cache: CacheStack | None = None
    ) -> tuple[Array, CacheStack]:
        """x (B, T, C), and a decoder's memory (B, S, C), to y (B, T, C); cache: in the place of a new one."""
        cache = CacheStack(self, recompute=self.recompute) if cache is None else cache
        for i, layer in enumerate(self.layers):  # 1. (B, T, C)
            x = cache.run(layer, x, *memory, context=context.child(f"layers.{i}"))
        return x if self.norm is None else cache.run(self.norm, x, context=context), cache  # 2.

    def start(self, batch: int, max_len: int, *memory: Array) -> tuple[LayerState, ...]:
        """For decoding with causal masks: what each layer remembers, before the first token."""
        return tuple(layer.start(batch, max_len, *memory) for layer in self.layers)

    def step(self, x: Array, states: tuple[LayerState, ...], context: Context) -> Array:
        """For decoding: x (B, n, C), the newest tokens, to y (B, n, C). Masks: as in the layer's step."""
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.step(x, state, context)
        return x if self.norm is None else self.norm.forward(x, context=context)[0]


class EncoderStack(_Stack):
    """num_layers encoder layers; final_norm None means: only for pre-LN.

    recompute forgets what a layer computed and computes it again in backward. layer_options go to each layer.
    """

    static = True
    layer_class = EncoderLayer

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, S, C) to dx (B, S, C)."""
        dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())  # back through 2
        for layer in reversed(self.layers):
            dx = layer.backward(dx, cache.pop())  # back through 1
        return dx


class DecoderStack(_Stack):
    """num_layers decoder layers; final_norm None means: only for pre-LN.

    recompute forgets what a layer computed and computes it again in backward. layer_options go to each layer.
    """

    static = True
    layer_class = DecoderLayer

    def backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (B, T, C) to (dx (B, T, C), dmemory (B, S, C))."""
        dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())  # back through 2
        dmemory = None
        for layer in reversed(self.layers):
            dx, from_layer = layer.backward(dx, cache.pop())  # back through 1
            dmemory = from_layer if dmemory is None else dmemory + from_layer  # every layer read the same memory
        return dx, dmemory
