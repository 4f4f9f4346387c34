"""The encoder alone, as in BERT: reads a whole text at once, and says something about it.

    h = EncoderStack(Drop(embed(tokens) + positions))          every token sees every other, padding apart
    head "sequence"   logits = h_0 W + b        the first token's vector stands for the text: [CLS]
    head "tokens"     logits = h W + b          a class for each token
    head "masked"     logits = h W + b          a token for each token; the loss counts the hidden ones

Backward of the first head: h_0 alone was looked at, so all other tokens receive zeros from there.

Source: Devlin et al. 2019, arXiv:1810.04805, section 3.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Arena, Backend, get_backend
from npformer.functional import AttentionMask
from npformer.functional.arrays import namespace
from npformer.layers import CacheStack, Dropout, EncoderStack, Layer, Linear, NoCache, RandomKey, Watch
from npformer.layers.call_tree import child
from npformer.models.config import EncoderConfig
from npformer.models.inputs import token_ids
from npformer.models.token_input import embed, embed_backward, new_embedding, new_positions
from npformer.typing import Array


class Encoder(Layer):
    """The model that ``config`` describes, on ``backend`` (default: get_backend("auto")).

    Parameters depend on config and seed alone, not on the backend. ``arena`` holds them all.
    """

    def __init__(self, config: EncoderConfig, *, backend: Backend | None = None, seed: int = 0) -> None:
        super().__init__(backend or get_backend())
        self.config = config
        rng = np.random.default_rng(seed)
        self.embedding = new_embedding(config.vocab_size, config, self.backend, rng)
        self.positions = new_positions(config, self.backend, rng)
        self.dropout = Dropout(config.dropout, backend=self.backend)
        options = config.layer_options(causal=False)
        self.encoder = EncoderStack(config.num_layers, config.d_model, backend=self.backend, seed=rng, **options)
        tied = self.embedding.weight.transposed("weight") if config.tie_embeddings else None
        classes = config.num_classes or config.vocab_size
        self.head = Linear(config.d_model, classes, backend=self.backend, seed=rng, weight=tied)
        self.arena = Arena(self.owned_parameters(), self.backend)

    def forward(
        self, tokens: Array, *, key: RandomKey | None = None, watch: Watch | None = None, checked: bool = False
    ) -> tuple[Array, CacheStack]:
        """tokens (B, T) to logits, (B, K) for head "sequence", else (B, T, K); key None: no dropout.

        checked: they are on the device, and nobody needs to read them back to look at them. Raises ShapeError,
        DTypeError or TokenError for ids that are not (B, T) integers in range.
        """
        cache = CacheStack(self)
        return self._run(cache, tokens if checked else self._ids(tokens), key, watch), cache

    def __call__(self, tokens: Array) -> Array:
        """The logits alone, without dropout, keeping no cache."""
        return self._run(NoCache(self), self._ids(tokens), None, None)

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits like the logits."""
        dh = self.head.backward(dlogits, cache.pop())
        if self.config.head == "sequence":
            dh = _first_token_backward(dh, cache.pop())
        dx = self.encoder.backward(dh, cache.pop())
        embed_backward(self.embedding, self.positions, self.dropout, dx, cache)

    def attention_weights(self, tokens: Array) -> dict[str, Array]:
        """Name of each attention -> its weights (B, H, T, T), in the order in which they are computed."""
        watch = Watch()
        self._run(NoCache(self), self._ids(tokens), None, watch)
        return watch.weights

    def _ids(self, tokens: Array) -> Array:
        return token_ids("tokens", tokens, self.config.vocab_size, self.backend)

    def _run(self, cache: CacheStack, tokens: Array, key: RandomKey | None, watch: Watch | None) -> Array:
        mask = AttentionMask(key_visible=tokens != self.config.pad_id)
        x = embed(cache, self.embedding, self.positions, self.dropout, tokens, child(key, "embedding"))
        h = cache.run(self.encoder, x, mask=mask, key=child(key, "encoder"), watch=child(watch, "encoder"))
        if self.config.head == "sequence":
            h = cache.keep((h[:, 0, :], h.shape[1]))
        return cache.run(self.head, h)


def _first_token_backward(dfirst: Array, length: int) -> Array:
    """dh (B, T, C) of h ↦ h_0, given dfirst (B, C)."""
    xp = namespace(dfirst)
    first = dfirst[:, None, :]
    return xp.concat([first, *[xp.zeros_like(first)] * (length - 1)], axis=1)
