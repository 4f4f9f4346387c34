"""Fused decoding: one step from tokens to logits, or several steps to tokens, in one call of a kernel; encoding, too.

A kernel that computes all layers of a stack in one call is prepared for one version of a model (see
``layers/owner.py``). Replacing an array, an option or a layer prepares it again. Values changed in place, as by an
optimiser, need no new preparation. That of a decoder is then prepared for a state, and used as long as the state keeps
the same arrays; that of an encoder splits its rows over threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from npformer.engine.capabilities import capabilities_of
from npformer.engine.static import has_own_ops, is_static
from npformer.functional import AttentionMask
from npformer.functional.arrays import namespace
from npformer.layers import (
    CacheStack,
    DecodeState,
    Embedding,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    ScaledDotProduct,
)
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.owner import version_of
from npformer.layers.stacks import DecoderStack, EncoderStack
from npformer.models import Decoder, Transformer
from npformer.models.inputs import embed, next_tokens, token_ids
from npformer.typing import Array, HostArray

#: model -> (the version for which a kernel was prepared, the kernel).
Prepared: TypeAlias = "WeakKeyDictionary[Any, tuple[int, Any]]"


class LayerParts(NamedTuple):
    """The weights and options of one layer."""

    norm_order: str
    activation: str
    heads: int
    weights: tuple[Array, ...]  # of each sub-layer in turn: two weights with their biases, γ and β


class StackParts(NamedTuple):
    """The weights and options of a stack."""

    layers: tuple[LayerParts, ...]
    norm: tuple[Array, Array] | None  # γ and β of the final norm
    eps: float  # of all norms


def encoder_parts(stack: EncoderStack) -> StackParts | None:
    """An encoder's parts; None if one is not of npformer's own classes, or norms differ in eps."""
    return _stack_parts(stack, type(stack) is EncoderStack, EncoderLayer, ("self_attention",))


def decoder_parts(stack: DecoderStack) -> StackParts | None:
    """A decoder's parts; None if one is not of npformer's own classes, or norms differ in eps."""
    return _stack_parts(stack, type(stack) is DecoderStack, DecoderLayer, ("self_attention", "cross_attention"))


def _stack_parts(
    stack: Any, is_known: bool, kind: type[EncoderLayer | DecoderLayer], attentions: tuple[str, ...]
) -> StackParts | None:
    norms: list[Any] = [
        getattr(layer, f"norm{i + 1}", None) for layer in stack.layers for i in range(len(attentions) + 1)
    ]
    norms += [] if stack.norm is None else [stack.norm]
    if not is_known or any(type(norm) is not LayerNorm for norm in norms):
        return None
    layers, eps = [_layer_parts(layer, kind, attentions) for layer in stack.layers], {norm.eps for norm in norms}
    known = tuple(layer for layer in layers if layer is not None)
    if len(known) < len(layers) or len(eps) != 1:
        return None
    return StackParts(known, None if stack.norm is None else (stack.norm.gamma.data, stack.norm.beta.data), eps.pop())


def _layer_parts(layer: Any, kind: type[EncoderLayer | DecoderLayer], names: tuple[str, ...]) -> LayerParts | None:
    """A layer's parts; None if it, or one of its sub-layers, is of another class."""
    if type(layer) is not kind or type(layer.feed_forward) is not FeedForward:
        return None
    attentions = [getattr(layer, name) for name in names]
    heads = {one.num_heads for one in attentions if _is_plain(one)}
    if len(heads) != 1 or not all(map(_is_plain, attentions)):
        return None
    sub_layers = [*((one, one.output) for one in attentions), (layer.feed_forward.up, layer.feed_forward.down)]
    weights = []
    for i, (first, second) in enumerate(sub_layers):
        norm = getattr(layer, f"norm{i + 1}")
        pairs = (first.weight, first.bias, second.weight, second.bias, norm.gamma, norm.beta)
        weights += [parameter.data for parameter in pairs]
    return LayerParts(layer.norm_order, layer.feed_forward.activation, heads.pop(), tuple(weights))


def _is_plain(attention: Any) -> bool:
    """Whether this is softmax attention without rotation or bias."""
    if type(attention) is not MultiHeadAttention or type(attention.output) is not Linear:
        return False
    return type(attention.mechanism) is ScaledDotProduct and attention.rotation is None and attention.score_bias is None


def prepared(cache: Prepared, model: Any, parts_of: Callable[[Any], Any], prepare: Callable[[Any], Any]) -> Any:
    """The result of prepare(parts_of(model)) for this version of the model.

    None if the model has no such parts, is not static, or has other kernels.
    """
    version = version_of(model)
    entry = cache.get(model)
    if entry is None or entry[0] != version:
        parts = parts_of(model) if is_static(model) and has_own_ops(model) else None
        cache[model] = entry = (version, None if parts is None else prepare(parts))
    return entry[1]


class DecoderParts(NamedTuple):
    """The arrays of a step, apart from the state."""

    embedding: Array  # (V, C)
    scale: float
    layers: tuple[LayerParts, ...]  # these and the next two as in StackParts
    norm: tuple[Array, Array] | None
    eps: float
    weight: Array  # (C, V)
    bias: Array  # (V,)


of_state = attrgetter("positions", "visible", "layers", "memory_mask")
_prepared: Prepared = WeakKeyDictionary()


def step(model: Transformer | Decoder, tokens: Array, state: DecodeState) -> Array:
    """model.step(tokens, state), in one fused call if there is a kernel for this case."""
    steps = _steps(model, state)
    if isinstance(model, Transformer) and steps is not None:
        ids, several = next_tokens(tokens, model.config.tgt_vocab_size, model.backend)
        if ids.shape[1] == 1:
            state.admit(ids != model.config.pad_id)
            logits: Array | None = steps(ids, state.length)  # (B, 1, V)
            if logits is not None:
                state.length += 1
                return logits if several else logits[:, 0, :]
    return model.step(tokens, state)


def likeliest(
    model: Transformer | Decoder, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """Up to count greedy steps of the model in one call. Returns the chosen tokens (n, B).

    tokens (B,), boolean going (B,) and the rest as in DecoderSteps.write. None if there is no kernel for this case.
    """
    chosen: HostArray | None = _several(model, tokens, state, "write", going, count, eos_id)
    if chosen is not None:
        state.length += len(chosen)
    return chosen


def search(
    model: Transformer | Decoder,
    tokens: Array,
    state: DecodeState,
    beams: tuple[HostArray, ...],
    count: int,
    eos_id: int,
) -> tuple[HostArray, HostArray] | None:
    """Up to count steps of the model and of the beam search in one call, as in DecoderSteps.search."""
    choices: tuple[HostArray, HostArray] | None = _several(model, tokens, state, "search", beams, count, eos_id)
    if choices is not None:
        state.length += len(choices[0])
    return choices


def _several(
    model: Transformer | Decoder, tokens: Array, state: DecodeState, way: str, arguments: Any, count: int, eos_id: int
) -> Any:
    """What the steps' method ``way`` returns for tokens (B,) and what it is given; None without steps."""
    steps, pad_id = _steps(model, state), model.config.pad_id
    if steps is None or not isinstance(model, Transformer):
        return None
    tokens, _ = next_tokens(tokens, model.config.tgt_vocab_size, model.backend)
    if tokens.shape[1] != 1:
        return None
    state.admit(tokens != pad_id)
    most = min(count, state.max_len - state.length)
    return getattr(steps, way)(tokens, state.length, arguments, (eos_id, pad_id), most)


def _steps(model: Transformer | Decoder, state: DecodeState) -> Any:
    """The backend's fused steps for this model and state, or None."""
    engine = capabilities_of(model)
    prepare = engine.decoder_steps
    if prepare is None or not isinstance(model, Transformer):
        return None

    weights = prepared(_prepared, model, _parts, lambda parts: prepare(parts, engine.threads))
    static_arguments = (weights, *of_state(state))
    if state.fused is None or not all(map(is_, static_arguments, state.fused[0])):
        state.fused = (static_arguments, None if weights is None else weights(state))
    return state.fused[1]


def _parts(model: Transformer) -> DecoderParts | None:
    """The parts of a decoder of npformer's own classes; None if a part is of another class."""
    stack = decoder_parts(model.decoder)
    if stack is None or type(model.tgt_embedding) is not Embedding or type(model.generator) is not Linear:
        return None
    return DecoderParts(
        model.tgt_embedding.weight.data,
        model.tgt_embedding.scale,
        *stack,
        model.generator.weight.data,
        model.generator.bias.data,
    )


_encoders: Prepared = WeakKeyDictionary()


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
    encoder = prepared(_encoders, model, lambda model: encoder_parts(model.encoder), prepare)
    if encoder is None:
        return None
    x = embed(CacheStack(model, inference=True), model.src_embedding, model.src_positions, model.dropout, src)
    memory: Array | None = encoder(x, src != model.config.pad_id)
    return memory
