"""The encoder in one call, where the backend has a kernel for it (see ``stack_parts.py``)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from npformer.layers.cache_stack import NoCache
from npformer.models.stack_parts import ENCODER, Seen, prepared
from npformer.models.token_input import embed
from npformer.typing import Array

_seen: Seen = WeakKeyDictionary()


def encode_at_once(model: Any, src: Array) -> Array | None:
    """The memory (B, S, C) of src (B, S), checked token ids; None if there is no kernel for this case."""
    prepare = model.backend.encoder_of_texts
    if prepare is None:
        return None

    def of_model() -> Any:
        parts = ENCODER.read(model.encoder)
        return None if parts is None else prepare(parts)

    encoder = prepared(_seen, model, ENCODER.made_of(model.encoder), of_model)
    if encoder is None:
        return None
    x = embed(NoCache(model), model.src_embedding, model.src_positions, model.dropout, src, None)
    memory: Array | None = encoder(x, src != model.config.pad_id)
    return memory
