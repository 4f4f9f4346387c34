"""Stacks: L equal layers one on the other, and for pre-LN a final norm on top.

    encoder   x ← layer_l(x)            for l = 0 … L−1      y = LN(x) if there is a final norm
    decoder   x ← layer_l(x, memory)    likewise

Every decoder layer reads the same memory, so in backward dmemory is the sum over the layers. A
pre-LN stack without the final norm hands on a sum that grows with depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.layers.cache_stack import CacheStack, NoCache
from npformer.layers.call_tree import AttentionRecorder, RandomKey, child
from npformer.layers.decode_state import LayerState
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.norms import Norm, about_tokens, make_norm
from npformer.typing import Array


class EncoderStack(Layer):
    """num_layers encoder layers; final_norm None means: only for pre-LN.

    recompute forgets what a layer computed and computes it again in backward. layer_options go to each layer.
    """

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
        self.layers = [EncoderLayer(d_model, backend=backend, seed=rng, **layer_options) for _ in range(num_layers)]
        self.recompute = recompute
        self.norm = _final_norm(final_norm, d_model, backend, layer_options)

    def forward(self, x: Array, **options: Any) -> tuple[Array, CacheStack]:
        """x (B, S, C) to y (B, S, C). Options: mask, key, recorder, as in EncoderLayer."""
        cache = CacheStack(self, recompute=self.recompute)
        return self._run(cache, x, **options), cache

    def __call__(self, x: Array, **options: Any) -> Array:
        return self._run(NoCache(self), x, **options)

    def _run(
        self,
        cache: CacheStack,
        x: Array,
        *,
        mask: AttentionMask = ALL_VISIBLE,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Array:
        for i, layer in enumerate(self.layers):
            name = f"layers.{i}"
            x = cache.run(layer, x, mask=mask, key=child(key, name), recorder=child(recorder, name))
        return x if self.norm is None else cache.run(self.norm, x, **about_tokens(mask, key))

    def start(self, batch: int, max_len: int) -> tuple[LayerState, ...]:
        """For decoding with causal masks: what each layer remembers, before the first token."""
        return tuple(layer.start(batch, max_len) for layer in self.layers)

    def step(self, x: Array, states: tuple[LayerState, ...], *, mask: AttentionMask) -> Array:
        """For decoding: x (B, n, C), the newest tokens, to y (B, n, C)."""
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.step(x, state, mask=mask)
        return x if self.norm is None else self.norm(x)

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, S, C) to dx (B, S, C)."""
        dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())
        for layer in reversed(self.layers):
            dx = layer.backward(dx, cache.pop())
        return dx


class DecoderStack(Layer):
    """num_layers decoder layers; final_norm None means: only for pre-LN.

    recompute forgets what a layer computed and computes it again in backward. layer_options go to each layer.
    """

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
        self.layers = [DecoderLayer(d_model, backend=backend, seed=rng, **layer_options) for _ in range(num_layers)]
        self.recompute = recompute
        self.norm = _final_norm(final_norm, d_model, backend, layer_options)

    def forward(self, x: Array, memory: Array, **options: Any) -> tuple[Array, CacheStack]:
        """x (B, T, C) and memory (B, S, C) to y (B, T, C). Options: mask, memory_mask, key, recorder."""
        cache = CacheStack(self, recompute=self.recompute)
        return self._run(cache, x, memory, **options), cache

    def __call__(self, x: Array, memory: Array, **options: Any) -> Array:
        return self._run(NoCache(self), x, memory, **options)

    def _run(
        self,
        cache: CacheStack,
        x: Array,
        memory: Array,
        *,
        mask: AttentionMask = ALL_VISIBLE,
        memory_mask: AttentionMask = ALL_VISIBLE,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Array:
        masks = {"mask": mask, "memory_mask": memory_mask}
        for i, layer in enumerate(self.layers):
            name = f"layers.{i}"
            x = cache.run(layer, x, memory, **masks, key=child(key, name), recorder=child(recorder, name))
        return x if self.norm is None else cache.run(self.norm, x, **about_tokens(mask, key))

    def start(self, batch: int, max_len: int, memory: Array) -> tuple[LayerState, ...]:
        """For decoding: what each layer remembers, before the first target; memory (B, S, C)."""
        return tuple(layer.start(batch, max_len, memory) for layer in self.layers)

    def step(self, x: Array, states: tuple[LayerState, ...], **masks: AttentionMask) -> Array:
        """For decoding: x (B, n, C), the newest targets, to y (B, n, C). Masks: mask, memory_mask."""
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.step(x, state, **masks)
        return x if self.norm is None else self.norm(x)

    def backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (B, T, C) to (dx (B, T, C), dmemory (B, S, C))."""
        dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())
        dmemory = None
        for layer in reversed(self.layers):
            dx, from_layer = layer.backward(dx, cache.pop())
            dmemory = from_layer if dmemory is None else dmemory + from_layer
        return dx, dmemory


def _final_norm(wanted: bool | None, d_model: int, backend: Backend, layer_options: dict[str, Any]) -> Norm | None:
    if wanted is None:
        wanted = layer_options.get("norm_order", "post") == "pre"
    return make_norm(layer_options.get("norm", "layer"), d_model, backend) if wanted else None
