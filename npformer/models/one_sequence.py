"""The common part of Encoder and Decoder, the models of one sequence: tokens in, logits out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.layers import INFERENCE, AttentionRecorder, CacheStack, Context, Dropout, Layer, RandomKey
from npformer.models.config import DecoderConfig, EncoderConfig
from npformer.models.inputs import new_embedding, new_positions, token_ids
from npformer.typing import Array

if TYPE_CHECKING:
    from npformer.data import Tokenizer


class OneSequence(Layer):
    """Embedding, positions and dropout of a model whose ``_run`` computes logits from token ids (B, T) on the device.

    rng draws these parameters first, then those of the subclass.
    """

    state_names = ("tokenizer", "classes")
    tokenizer: Tokenizer | None = None  #: of its run or its file, if ``npf.load`` found one
    classes: tuple[str, ...] = ()  #: by id, the first one [PAD]; () where there are none

    def __init__(
        self, config: EncoderConfig | DecoderConfig, backend: Backend | None, rng: np.random.Generator
    ) -> None:
        super().__init__(backend or get_backend())
        self.embedding = new_embedding(config.vocab_size, config, self.backend, rng)
        self.positions = new_positions(config, self.backend, rng)
        self.dropout = Dropout(config.dropout, backend=self.backend)

    def forward(
        self,
        tokens: Array,
        *,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
        checked: bool = False,
    ) -> tuple[Array, CacheStack]:
        """tokens (B, T) to logits, as the class says; key None: no dropout.

        checked: the ids are on the device and checked already, so they are not read back. Raises ShapeError,
        DTypeError or TokenError for ids that are not (B, T) integers in range.
        """
        cache, context = CacheStack(self), Context(key=key, recorder=recorder)
        return self._run(cache, tokens if checked else self._ids(tokens), context), cache

    def __call__(self, tokens: Array) -> Array:
        """The logits, without dropout and without a cache."""
        return self._run(CacheStack(self, inference=True), self._ids(tokens), INFERENCE)

    def attention_weights(self, tokens: Array) -> dict[str, Array]:
        """Name of each attention -> its weights (B, H, T, T), in the order in which they are computed."""
        recorder = AttentionRecorder()
        self._run(CacheStack(self, inference=True), self._ids(tokens), Context(recorder=recorder))
        return recorder.weights

    def _ids(self, tokens: Array) -> Array:
        return token_ids("tokens", tokens, self.embedding.weight.data.shape[0], self.backend)

    def _run(self, cache: CacheStack, tokens: Array, context: Context) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _run")
