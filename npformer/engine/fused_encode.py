"""Fused encoding: the encoder in one call of a kernel (see ``fused_parts.py``), with the rows split over threads."""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

from npformer.engine.capabilities import capabilities_of
from npformer.engine.fused_parts import Prepared, encoder_parts, prepared
from npformer.functional import AttentionMask
from npformer.functional.arrays import namespace
from npformer.layers import CacheStack, DecodeState
from npformer.models import Transformer
from npformer.models.inputs import token_ids
from npformer.models.token_input import embed
from npformer.typing import Array

_prepared: Prepared = WeakKeyDictionary()


def start(model: Transformer, src: Array, max_len: int) -> DecodeState:
    """model.start(src, max_len), encoding as ``encode`` does; a model with a start of its own does as that says."""
    with capabilities_of(model).on_one_thread():
        if getattr(model.start, "__func__", None) is not Transformer.start:
            return model.start(src, max_len)
        return model.start(src, max_len, encode=partial(encode, model))


def encode(model: Transformer, src: Array) -> tuple[Array, AttentionMask]:
    """model.encode(src), with the rows split over threads. Each makes one fused call if there is a kernel for it."""
    src, engine = token_ids("src", src, model.config.src_vocab_size, model.backend), capabilities_of(model)
    size = -(-src.shape[0] // engine.parts_of(src.shape[0] * src.shape[1] * model.config.d_model))
    parts = [src[start : start + size, :] for start in range(0, src.shape[0], size)]
    memories: list[Array] = [None] * len(parts)

    def read(i: int) -> None:
        memories[i] = fused_encode(model, parts[i])
        if memories[i] is None:
            memories[i], _ = model.encode(parts[i])

    engine.in_threads([partial(read, i) for i in range(len(parts))])
    return namespace(src).concat(memories, axis=0), AttentionMask(key_visible=src != model.config.pad_id)


def fused_encode(model: Transformer, src: Array) -> Array | None:
    """The memory (B, S, C) of src (B, S), checked token ids; None if there is no kernel for this case."""
    prepare = capabilities_of(model).encoder_of_texts
    if prepare is None:
        return None
    encoder = prepared(_prepared, model, lambda model: encoder_parts(model.encoder), prepare)
    if encoder is None:
        return None
    x = embed(CacheStack(model, inference=True), model.src_embedding, model.src_positions, model.dropout, src)
    memory: Array | None = encoder(x, src != model.config.pad_id)
    return memory
