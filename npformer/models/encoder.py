"""The encoder-only model, as in BERT: it reads a whole text and classifies it, its tokens, or hidden tokens.

    h = EncoderStack(Drop(embed(tokens) + positions))          every token sees every other, padding apart
    head "sequence"   logits = h_0 W + b        the first token's vector stands for the text: [CLS]
    head "tokens"     logits = h W + b          a class for each token
    head "masked"     logits = h W + b          a token for each token; the loss counts the hidden ones

Backward, read bottom-up: dh = dlogits Wᵀ and dW = Σ_tokens hᵀ dlogits, then the stack (``layers/stacks.py``), then the
embedding, whose row v receives the sum over the positions of token v. With a tied table, W = Eᵀ, dWᵀ and the
gradients of the rows add. The head "sequence" reads only h_0, so it gives all other tokens a gradient of 0.

Source: Devlin et al. 2019, arXiv:1810.04805, section 3.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Arena, Backend
from npformer.functional import AttentionMask
from npformer.functional.arrays import device_of, namespace
from npformer.layers import CacheStack, Context, EncoderStack
from npformer.models.config import EncoderConfig
from npformer.models.inputs import embed, embed_backward, new_output
from npformer.models.one_sequence import OneSequence
from npformer.typing import Array


class Encoder(OneSequence):
    """Token ids (B, T) to logits, (B, K) for head "sequence", else (B, T, K): the model that ``config`` describes.

    On ``backend`` (default: get_backend("auto")). Parameters depend on config and seed alone;
    ``arena`` holds them all.
    """

    static = True

    def __init__(self, config: EncoderConfig, *, backend: Backend | None = None, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        super().__init__(config, backend, rng)
        self.config = config
        options = config.layer_options(causal=False)
        self.encoder = EncoderStack(config.num_layers, config.d_model, backend=self.backend, seed=rng, **options)
        self.head = new_output(config.num_classes or config.vocab_size, self.embedding, config, rng)
        self.arena = Arena(self.owned_parameters(), self.backend)

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits like the logits."""
        dh = self.head.backward(dlogits, cache.pop())
        if self.config.head == "sequence":
            dh = _first_token_backward(dh, cache.pop())
        dx = self.encoder.backward(dh, cache.pop())
        embed_backward(self.embedding, self.positions, self.dropout, dx, cache)

    def _run(self, cache: CacheStack, tokens: Array, context: Context) -> Array:
        mask = AttentionMask(key_visible=tokens != self.config.pad_id)
        x = embed(cache, self.embedding, self.positions, self.dropout, tokens, context.child("embedding"))
        h = cache.run(self.encoder, x, context=context.child("encoder", mask=mask))
        if self.config.head == "sequence":
            h = cache.keep((h[:, 0, :], h.shape[1]))
        return cache.run(self.head, h)


def _first_token_backward(dfirst: Array, length: int) -> Array:
    """dh (B, T, C) of h ↦ h_0, given dfirst (B, C)."""
    xp, (batch, width) = namespace(dfirst), dfirst.shape
    others = xp.zeros((batch, length - 1, width), dtype=dfirst.dtype, device=device_of(dfirst))
    return xp.concat([dfirst[:, None, :], others], axis=1)
