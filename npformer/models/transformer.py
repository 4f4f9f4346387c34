"""The encoder-decoder Transformer: it reads a source and generates a target, token by token.

    1   x = Drop(√C·E_src[src] + positions)   (B, S, C)
    2   memory = Encoder(x)                   (B, S, C)
    3   z = Drop(√C·E_tgt[tgt] + positions)   (B, T, C)
    4   h = Decoder(z, memory)                (B, T, C)
    5   logits = h W_g + b_g                  (B, T, V)

Padding of the source is hidden from the encoder's self-attention and from cross-attention. The
decoder sees no later token and no padding.

Backward, the steps counted down; each step's derivation stands in its own file:

    5   dh = dlogits W_gᵀ      dW_g = Σ_tokens hᵀ dlogits      db_g = Σ_tokens dlogits
    4   dz, dmemory from dh    back through the decoder: each of its layers gives a dmemory
                               (``layers/decoder_layer.py``), and ``layers/stacks.py`` adds them
    3   dE_tgt[v] = √C·Σ dz    over the places where token v stood; dz after dropout's mask and scale
    2   dx from dmemory        back through the encoder: there is no other way from the loss to the encoder
    1   dE_src[v] = √C·Σ dx    likewise

Row t of learned positions receives Σ dx_t over the batch from the source, and Σ dz_t from the target. Tied embeddings
are one table E with W_g = Eᵀ. It was used three times, so three gradients add into it: dW_gᵀ, dE_tgt and dE_src. A
backward adds to ``Parameter.grad``, and never overwrites it.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from npformer.backend import Arena, Backend, get_backend
from npformer.errors import ShapeError
from npformer.functional import AttentionMask
from npformer.layers import (
    INFERENCE,
    AttentionRecorder,
    CacheStack,
    Context,
    DecoderStack,
    DecodeState,
    Dropout,
    EncoderStack,
    Layer,
    RandomKey,
)
from npformer.models.config import TransformerConfig
from npformer.models.inputs import (
    decode_step,
    embed,
    embed_backward,
    new_embedding,
    new_output,
    new_positions,
    position_rows,
    token_ids,
)
from npformer.typing import Array

if TYPE_CHECKING:
    from npformer.data import Tokenizer


class Transformer(Layer):
    """The model that ``config`` describes, on ``backend`` (default: get_backend("auto")).

    Parameters depend on config and seed alone, not on the backend. ``arena`` holds them all.
    """

    static = True
    state_names = ("tokenizer", "classes")
    tokenizer: Tokenizer | None = None  #: of its run or its file, if ``npf.load`` found one
    classes: tuple[str, ...] = ()  #: by id, the first one [PAD]; () where there are none

    def __init__(self, config: TransformerConfig, *, backend: Backend | None = None, seed: int = 0) -> None:
        super().__init__(backend or get_backend())
        self.config = config
        rng = np.random.default_rng(seed)
        self.src_embedding = new_embedding(config.src_vocab_size, config, self.backend, rng)
        self.tgt_embedding = (
            self.src_embedding
            if config.tie_embeddings
            else new_embedding(config.tgt_vocab_size, config, self.backend, rng)
        )
        self.src_positions = new_positions(config, self.backend, rng)
        self.tgt_positions = new_positions(config, self.backend, rng)
        self.dropout = Dropout(config.dropout, backend=self.backend)
        shared = {"backend": self.backend, "seed": rng}
        encoder, decoder = (config.layer_options(causal=causal) | shared for causal in (False, True))
        self.encoder = EncoderStack(config.num_encoder_layers, config.d_model, **encoder)
        self.decoder = DecoderStack(config.num_decoder_layers, config.d_model, **decoder)
        self.generator = new_output(config.tgt_vocab_size, self.tgt_embedding, config, rng)
        self.arena = Arena(self.owned_parameters(), self.backend)

    def forward(
        self,
        src: Array,
        tgt_in: Array,
        *,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
        checked: bool = False,
    ) -> tuple[Array, CacheStack]:
        """src (B, S) and tgt_in (B, T), token ids, to logits (B, T, V); key None: no dropout.

        checked: the ids are on the device and checked already, so they are not read back. Raises ShapeError,
        DTypeError or TokenError for ids that are not (B, T) integers in range.
        """
        cache, context = CacheStack(self), Context(key=key, recorder=recorder)
        if not checked:
            src, tgt_in = self._ids(src, tgt_in)
        return self._decode(cache, tgt_in, *self._encode(cache, src, context), context), cache

    def __call__(self, src: Array, tgt_in: Array) -> Array:
        """The logits (B, T, V), without dropout and without a cache."""
        cache, (src, tgt_in) = CacheStack(self, inference=True), self._ids(src, tgt_in)
        return self._decode(cache, tgt_in, *self._encode(cache, src))

    def backward(self, dlogits: Array, cache: CacheStack) -> None:
        """Add to the gradient of every parameter, given dlogits (B, T, V)."""
        dh = self.generator.backward(dlogits, cache.pop())
        dz, dmemory = self.decoder.backward(dh, cache.pop())
        embed_backward(self.tgt_embedding, self.tgt_positions, self.dropout, dz, cache)
        dx = self.encoder.backward(dmemory, cache.pop())
        embed_backward(self.src_embedding, self.src_positions, self.dropout, dx, cache)

    def attention_weights(self, src: Array, tgt_in: Array) -> dict[str, Array]:
        """Name of each attention -> its weights (B, H, T, S), in the order in which they are computed."""
        cache, (src, tgt_in) = CacheStack(self, inference=True), self._ids(src, tgt_in)
        context = Context(recorder=(recorder := AttentionRecorder()))
        self._decode(cache, tgt_in, *self._encode(cache, src, context), context)
        return recorder.weights

    def encode(self, src: Array) -> tuple[Array, AttentionMask]:
        """For decoding: src (B, S) to the memory (B, S, C) and the mask of its padding."""
        src = token_ids("src", src, self.config.src_vocab_size, self.backend)
        return self._encode(CacheStack(self, inference=True), src)

    def decode(self, tgt_in: Array, memory: Array, memory_mask: AttentionMask) -> Array:
        """For decoding: tgt_in (B, T) and what encode returned to logits (B, T, V)."""
        tgt_in = token_ids("tgt_in", tgt_in, self.config.tgt_vocab_size, self.backend)
        return self._decode(CacheStack(self, inference=True), tgt_in, memory, memory_mask)

    def start(
        self, src: Array, max_len: int, *, encode: Callable[[Array], tuple[Array, AttentionMask]] | None = None
    ) -> DecodeState:
        """Begin to decode: encode src (B, S) once, and allocate room for max_len target tokens per row.

        encode replaces self.encode by a faster function with the same result.
        Raises ConfigError unless 1 <= max_len, <= max_seq_len for learned positions, and what forward raises.
        """
        positions = position_rows(self.tgt_positions, max_len, self.config, self.backend)
        memory, memory_mask = (encode or self.encode)(src)
        batch = memory.shape[0]
        return DecodeState(
            backend=self.backend,
            layers=self.decoder.start(batch, max_len, memory),
            positions=positions,
            visible=self.backend.device.zeros((batch, max_len), "bool"),
            sources=np.arange(batch),
            memory_mask=memory_mask,
        )

    def step(self, tokens: Array, state: DecodeState) -> Array:
        """One decoding step: tokens (B,), the newest of each row, to logits (B, V) of the next, or (B, n) to (B, n, V).

        Equals decode of all tokens so far, but computes only the new ones. Feed pads to a row that has
        ended. Raises ShapeError past max_len, and the errors of forward; the state is then unchanged.
        """
        return decode_step(self, self.tgt_embedding, self.config.tgt_vocab_size, tokens, state)

    def _ids(self, src: Array, tgt_in: Array) -> tuple[Array, Array]:
        """src and tgt_in on the device, checked on the host."""
        src = token_ids("src", src, self.config.src_vocab_size, self.backend)
        tgt_in = token_ids("tgt_in", tgt_in, self.config.tgt_vocab_size, self.backend)
        if src.shape[0] != tgt_in.shape[0]:
            raise ShapeError(f"tgt_in: expected (B={src.shape[0]}, T) like src, got {tuple(tgt_in.shape)}")
        return src, tgt_in

    def _encode(self, cache: CacheStack, src: Array, context: Context = INFERENCE) -> tuple[Array, AttentionMask]:
        mask = AttentionMask(key_visible=src != self.config.pad_id)
        x = embed(cache, self.src_embedding, self.src_positions, self.dropout, src, context.child("src_embedding"))
        return cache.run(self.encoder, x, context=context.child("encoder", mask=mask)), mask

    def _decode(
        self,
        cache: CacheStack,
        tgt_in: Array,
        memory: Array,
        memory_mask: AttentionMask,
        context: Context = INFERENCE,
    ) -> Array:
        mask = AttentionMask(key_visible=tgt_in != self.config.pad_id, causal=True)
        z = embed(cache, self.tgt_embedding, self.tgt_positions, self.dropout, tgt_in, context.child("tgt_embedding"))
        h = cache.run(self.decoder, z, memory, context=context.child("decoder", mask=mask, memory_mask=memory_mask))
        return cache.run(self.generator, h)
