"""A decoding step in one call, where the backend has a kernel for it, from tokens to logits; or several, to tokens.

The kernel is prepared for a decoder (see ``stack_parts.py``), and then for a state, and used for as long as that, too,
has the very same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from npformer.layers import Embedding, Linear
from npformer.layers.decode_state import DecodeState
from npformer.models.inputs import next_tokens
from npformer.models.stack_parts import DECODER, LayerParts, Seen, prepared, same
from npformer.typing import Array, HostArray


class DecoderParts(NamedTuple):
    """What a step computes with, beside the state."""

    embedding: Array  # (V, C)
    scale: float
    layers: tuple[LayerParts, ...]  # these and the next two as in StackParts
    norm: tuple[Array, Array] | None
    eps: float
    weight: Array  # (C, V)
    bias: Array  # (V,)


_of_model = attrgetter(
    "tgt_embedding.weight.data", "tgt_embedding.scale", "generator.weight", "generator.bias.data",
    "tgt_embedding.__class__", "generator.__class__",
)  # fmt: skip
_of_state = attrgetter("positions", "visible", "layers", "memory_mask")
_seen: Seen = WeakKeyDictionary()


def step_at_once(model: Any, tokens: Array, state: DecodeState) -> Array | None:
    """model.step from tokens (B, 1) to logits (B, 1, V); None if there is no kernel for this case."""
    steps = _steps(model, tokens, state)
    return None if steps is None else steps(tokens, state.length)


def likeliest_at_once(
    model: Any, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """Up to count times model.step, each row fed the likeliest token of the step before: (n, B), those chosen.

    tokens (B,), boolean going (B,) and the rest as DecoderSteps.write has them, which this is: None without it.
    """
    chosen: HostArray | None = _several(
        model, tokens, state, count, eos_id,
        lambda steps, tokens, ends, count: steps.write(tokens, state.length, going, ends, count),
    )  # fmt: skip
    if chosen is not None:
        state.length += len(chosen)
    return chosen


def search_at_once(
    model: Any, tokens: Array, state: DecodeState, beams: tuple[HostArray, ...], count: int, eos_id: int
) -> tuple[HostArray, HostArray] | None:
    """Up to count times model.step, and in between what a beam search does: as DecoderSteps.search has it."""
    found: tuple[HostArray, HostArray] | None = _several(
        model, tokens, state, count, eos_id,
        lambda steps, tokens, ends, count: steps.search(tokens, state.length, beams, ends, count),
    )  # fmt: skip
    if found is not None:
        state.length += len(found[0])
    return found


def _several(model: Any, tokens: Array, state: DecodeState, count: int, eos_id: int, take: Callable[..., Any]) -> Any:
    """What take(steps, tokens (B, 1), (eos_id, pad_id), count) returns for tokens (B,); None without steps."""
    tokens, _ = next_tokens(tokens, model.config.tgt_vocab_size, model.backend)
    steps, pad_id = _steps(model, tokens, state), model.config.pad_id
    if steps is None:
        return None
    state.admit(tokens != pad_id)
    return take(steps, tokens, (eos_id, pad_id), min(count, state.max_len - state.length))


def _steps(model: Any, tokens: Array, state: DecodeState) -> Any:
    """The backend's steps of this model and state, from tokens (B, 1); None if there are none for them."""
    prepare = model.backend.decoder_steps
    if prepare is None or tokens.shape[1] != 1:
        return None

    def of_model() -> Any:
        parts = _parts(model)
        return None if parts is None else prepare(parts, model.backend.threads)

    weights = prepared(_seen, model, _made_of(model), of_model)
    made_of = [weights, *_of_state(state)]
    if state.at_once is None or not same(made_of, state.at_once[0]):
        state.at_once = (made_of, None if weights is None else weights(state))
    return state.at_once[1]


def _made_of(model: Any) -> list[Any]:
    weight = model.generator.weight
    tied = getattr(weight, "owner", weight).data  # a view of it
    return [*_of_model(model), tied, *DECODER.made_of(model.decoder)]


def _parts(model: Any) -> DecoderParts | None:
    """The parts of a decoder as it comes; None if one is of another kind."""
    stack = DECODER.read(model.decoder)
    if stack is None or type(model.tgt_embedding) is not Embedding or type(model.generator) is not Linear:
        return None
    return DecoderParts(
        model.tgt_embedding.weight.data, model.tgt_embedding.scale, *stack, model.generator.weight.data,
        model.generator.bias.data,
    )  # fmt: skip
