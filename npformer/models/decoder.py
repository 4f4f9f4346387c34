"""The decoder-only model, as in GPT: it predicts at each token of a text the next one.

    h      = Stack(Drop(embed(tokens) + positions))        no token sees a later one, or padding
    logits = h W_g + b_g

Backward, read bottom-up: dh = dlogits W_gᵀ and dW_g = Σ_tokens hᵀ dlogits, then the stack (``layers/stacks.py``), then
the embedding, whose row v receives the sum over the positions of token v. With a tied table, W_g = Eᵀ, dW_gᵀ and
the gradients of the rows add.

There is no source and so no cross-attention: its layers are encoder layers (self-attention and feed-forward)
with a causal mask.

Source: Radford et al. 2018, "Improving language understanding by generative pre-training", section 3.1.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Arena, Backend
from npformer.errors import ConfigError, ShapeError, whole_number
from npformer.functional import AttentionMask
from npformer.layers import CacheStack, Context, DecodeState, EncoderStack
from npformer.models.config import DecoderConfig
from npformer.models.inputs import decode_step, embed, embed_backward, new_output, position_rows
from npformer.models.one_sequence import OneSequence
from npformer.typing import Array, HostArray


class Decoder(OneSequence):
    """Token ids (B, T) to logits (B, T, V) of the token after each: the model that ``config`` describes.

    On ``backend`` (default: get_backend("auto")). Parameters depend on config and seed alone;
    ``arena`` holds them all.
    """

    static = True
    causal = True

    def __init__(self, config: DecoderConfig, *, backend: Backend | None = None, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        super().__init__(config, backend, rng)
        self.config = config
        options = config.layer_options(causal=True)
        self.decoder = EncoderStack(config.num_layers, config.d_model, backend=self.backend, seed=rng, **options)
        self.generator = new_output(config.vocab_size, self.embedding, config, rng)
        self.arena = Arena(self.owned_parameters(), self.backend)

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits (B, T, V)."""
        dh = self.generator.backward(dlogits, cache.pop())
        dx = self.decoder.backward(dh, cache.pop())
        embed_backward(self.embedding, self.positions, self.dropout, dx, cache)

    @property
    def begins_anywhere(self) -> bool:
        """Whether attention depends only on distances, so that a text may begin anywhere in its row."""
        return not (self.config.attention == "linear" and self.config.positions == "rotary")

    def start(self, batch: int, max_len: int, begins: HostArray | None = None) -> DecodeState:
        """Begin to decode batch rows, with room for max_len tokens per row, including the prompt.

        begins (B,), integers, is for prompts of unequal length. They are padded on the left: row b is
        begins_b pads and then its prompt, whose first token is still at position 0. Raises ConfigError
        unless batch >= 1, 1 <= max_len, <= max_seq_len for learned positions, begins >= 0, and 0 unless
        begins_anywhere; ShapeError unless begins is (B,).
        """
        whole_number("batch", batch, at_least=1)
        positions = position_rows(self.positions, max_len, self.config, self.backend)
        begins = None if begins is None else _checked_begins(begins, batch)
        if begins is not None and begins.any() and not self.begins_anywhere:
            raise ConfigError(
                "begins: expected 0 with linear attention and rotary positions, whose features depend on where a text "
                f"stands, got {begins.tolist()}; decode prompts of one length together"
            )
        room = max_len + (0 if begins is None else int(begins.max()))
        return DecodeState(
            backend=self.backend,
            layers=self.decoder.start(batch, room),
            positions=positions,
            visible=self.backend.device.zeros((batch, room), "bool"),
            sources=np.arange(batch),
            begins=begins,
        )

    def step(self, tokens: Array, state: DecodeState) -> Array:
        """One decoding step: tokens (B,), the newest of each row, to logits (B, V) of the next, or (B, n) to (B, n, V).

        Equals forward of all tokens so far, but computes only the new ones. Feed pads to a row that has
        ended. Raises ShapeError past max_len, and the errors of forward; the state is then unchanged.
        """
        return decode_step(self, self.embedding, self.config.vocab_size, tokens, state)

    def _run(self, cache: CacheStack, tokens: Array, context: Context) -> Array:
        mask = AttentionMask(key_visible=tokens != self.config.pad_id, causal=True)
        x = embed(cache, self.embedding, self.positions, self.dropout, tokens, context.child("embedding"))
        h = cache.run(self.decoder, x, context=context.child("decoder", mask=mask))
        return cache.run(self.generator, h)


def _checked_begins(begins: HostArray, batch: int) -> HostArray:
    begins = np.asarray(begins)
    if begins.shape != (batch,):
        raise ShapeError(f"begins: expected (B,) with B={batch}, one for each row, got {tuple(begins.shape)}")
    if begins.dtype.kind not in "iu" or begins.min() < 0:
        raise ConfigError(f"begins: expected integers >= 0, the pads before each prompt, got {begins.tolist()}")
    return begins
