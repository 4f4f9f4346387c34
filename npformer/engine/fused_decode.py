"""Fused decoding: one step from tokens to logits, or several steps to tokens, in one call of a kernel.

The kernel is prepared for a version of the model (see ``fused_parts.py``) and then for a state. It is used as long
as the state keeps the same arrays.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from npformer.engine.capabilities import capabilities_of
from npformer.engine.fused_parts import LayerParts, Prepared, decoder_parts, prepared
from npformer.layers import Embedding, Linear
from npformer.layers.decode_state import DecodeState
from npformer.models import Decoder, Transformer
from npformer.models.inputs import next_tokens
from npformer.typing import Array, HostArray


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
