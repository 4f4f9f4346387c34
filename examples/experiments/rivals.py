"""Translation models before attention: a recurrent and a convolutional encoder-decoder, of npformer's layers.

    GruTranslator     the decoder receives only the encoder's last state
    ConvTranslator    the decoder reads, at each position, the encoder's output at the same position; its layers are
                      x ← √½·(x + relu(conv(x))), which keeps the scale of the sum

Both have the Transformer's interface: token ids src (B, S) and tgt_in (B, T) to logits (B, T, V).

Source: Cho et al. 2014, arXiv:1406.1078; Kalchbrenner et al. 2016, arXiv:1610.10099.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import npformer as npf
from npformer.backend import Arena
from npformer.layers import CacheStack, Conv1d, Embedding, Gru, Layer, Linear, SinusoidalPositions

Array = Any
_HALF = math.sqrt(0.5)


class GruTranslator(Layer):
    """One GRU reads the source; another one starts from its last state and writes the target. Id 0 is padding."""

    def __init__(self, vocab_size: int, d_model: int, *, backend: npf.Backend, seed: int = 0) -> None:
        super().__init__(backend)
        rng = np.random.default_rng(seed)
        self.src_embedding = Embedding(vocab_size, d_model, backend=backend, seed=rng)
        self.tgt_embedding = Embedding(vocab_size, d_model, backend=backend, seed=rng)
        self.encoder = Gru(d_model, d_model, backend=backend, seed=rng)
        self.decoder = Gru(d_model, d_model, backend=backend, seed=rng)
        self.generator = Linear(d_model, vocab_size, backend=backend, seed=rng)
        self.arena = Arena(self.owned_parameters(), backend)

    def forward(self, src: Array, tgt_in: Array, *, key: npf.RandomKey | None = None) -> tuple[Array, CacheStack]:
        """src (B, S) and tgt_in (B, T) to logits (B, T, V). There is no dropout for the key to decide."""
        cache = CacheStack(self)
        x = cache.run(self.src_embedding, src)
        states = cache.run(self.encoder, x, visible=src != 0)  # (B, S, C); padding passes the state on
        last = cache.keep((states[:, -1, :], states.shape))
        h = cache.run(self.decoder, cache.run(self.tgt_embedding, tgt_in), last)
        return cache.run(self.generator, h), cache

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits (B, T, V)."""
        dh = self.generator.backward(dlogits, cache.pop())
        dx, dlast = self.decoder.backward(dh, cache.pop())
        self.tgt_embedding.backward(dx, cache.pop())
        dstates = self.backend.zeros(cache.pop())
        dstates[:, -1, :] = dlast  # the earlier states were not used
        dx, _ = self.encoder.backward(dstates, cache.pop())
        self.src_embedding.backward(dx, cache.pop())


class ConvTranslator(Layer):
    """num_layers residual convolutions over the source, as many causal ones over the target. Id 0 is padding."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int = 4,
        kernel_size: int = 5,
        *,
        backend: npf.Backend,
        seed: int = 0,
    ) -> None:
        super().__init__(backend)
        rng = np.random.default_rng(seed)
        self.src_embedding = Embedding(vocab_size, d_model, backend=backend, seed=rng)
        self.tgt_embedding = Embedding(vocab_size, d_model, backend=backend, seed=rng)
        self.positions = SinusoidalPositions(backend)
        self.encoder = tuple(
            Conv1d(d_model, d_model, kernel_size, backend=backend, seed=rng) for _ in range(num_layers)
        )
        self.decoder = tuple(
            Conv1d(d_model, d_model, kernel_size, causal=True, backend=backend, seed=rng) for _ in range(num_layers)
        )
        self.generator = Linear(d_model, vocab_size, backend=backend, seed=rng)
        self.arena = Arena(self.owned_parameters(), backend)

    def forward(self, src: Array, tgt_in: Array, *, key: npf.RandomKey | None = None) -> tuple[Array, CacheStack]:
        """src (B, S) and tgt_in (B, T) to logits (B, T, V). There is no dropout for the key to decide."""
        cache = CacheStack(self)
        x = cache.run(self.positions, cache.run(self.src_embedding, src))
        memory = self._convolve(cache, self.encoder, x)  # (B, S, C)
        x = cache.run(self.positions, cache.run(self.tgt_embedding, tgt_in))
        x = x + cache.keep((_of_length(memory, tgt_in.shape[1]), memory.shape[1]))  # (B, T, C)
        return cache.run(self.generator, self._convolve(cache, self.decoder, x)), cache

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits (B, T, V)."""
        dh = self.generator.backward(dlogits, cache.pop())
        dx = self._convolve_backward(cache, self.decoder, dh)
        dmemory = _of_length(dx, cache.pop())  # cutting is the transpose of zero-padding, and the reverse
        self.tgt_embedding.backward(self.positions.backward(dx, cache.pop()), cache.pop())
        dx = self._convolve_backward(cache, self.encoder, dmemory)
        self.src_embedding.backward(self.positions.backward(dx, cache.pop()), cache.pop())

    def _convolve(self, cache: CacheStack, layers: tuple[Conv1d, ...], x: Array) -> Array:
        for layer in layers:
            x = _HALF * (x + cache.keep(self.ops.relu.forward(cache.run(layer, x))))
        return x

    def _convolve_backward(self, cache: CacheStack, layers: tuple[Conv1d, ...], dx: Array) -> Array:
        for layer in reversed(layers):
            dx = _HALF * dx
            dh = self.ops.relu.backward(dx, cache.pop())
            dx = dx + layer.backward(dh, cache.pop())
        return dx


def _of_length(x: Array, length: int) -> Array:
    """x (B, S, C) as (B, length, C): cut, or padded with zeros."""
    return np.pad(x, ((0, 0), (0, max(0, length - x.shape[1])), (0, 0)))[:, :length, :]
