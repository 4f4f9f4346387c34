"""A decoding step in one call, where the backend has a body for it, from tokens to logits; or several, to tokens.

The body is prepared for a decoder, and then for a state, and used for as long as both are made of the very
same arrays, numbers and kinds of layers: replacing one, or a layer, prepares it anew; changing numbers in
place, as an optimiser does, is seen without.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from npformer.layers import Embedding, FeedForward, LayerNorm, Linear, MultiHeadAttention, ScaledDotProduct
from npformer.layers.decode_state import DecodeState
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.stacks import DecoderStack
from npformer.models.inputs import next_tokens
from npformer.typing import Array, HostArray


class LayerParts(NamedTuple):
    """What one decoder layer computes with."""

    norm_order: str
    activation: str
    heads: int
    weights: tuple[Array, ...]  # 18, of the three sub-layers: two weights with their biases, γ and β


class DecoderParts(NamedTuple):
    """What a step computes with, beside the state."""

    embedding: Array  # (V, C)
    scale: float
    layers: tuple[LayerParts, ...]
    norm: tuple[Array, Array] | None  # γ and β of the final norm
    eps: float  # of all norms
    weight: Array  # (C, V)
    bias: Array  # (V,)


_SUB_LAYERS = (
    ("self_attention", "self_attention.output", "norm1"),
    ("cross_attention", "cross_attention.output", "norm2"),
    ("feed_forward.up", "feed_forward.down", "norm3"),
)
_WEIGHTS = [
    f"{part}.{name}.data"
    for first, second, norm in _SUB_LAYERS
    for part, names in ((first, "weight bias"), (second, "weight bias"), (norm, "gamma beta"))
    for name in names.split()
]
_KINDS = {
    "": DecoderLayer, "self_attention.": MultiHeadAttention, "cross_attention.": MultiHeadAttention,
    "self_attention.mechanism.": ScaledDotProduct, "cross_attention.mechanism.": ScaledDotProduct,
    "self_attention.output.": Linear, "cross_attention.output.": Linear, "feed_forward.": FeedForward,
    "norm1.": LayerNorm, "norm2.": LayerNorm, "norm3.": LayerNorm,
}  # fmt: skip
_ABSENT = ["self_attention.rotation", "self_attention.score_bias"]
_OPTIONS = ["norm_order", "feed_forward.activation", "self_attention.num_heads", "cross_attention.num_heads",
            "norm1.eps", "norm2.eps", "norm3.eps"]  # fmt: skip
_of_layer = attrgetter(*_WEIGHTS, *_OPTIONS, *_ABSENT, *(f"{part}__class__" for part in _KINDS))
_of_model = attrgetter(
    "tgt_embedding.weight.data", "tgt_embedding.scale", "generator.weight", "generator.bias.data", "decoder.norm",
    "tgt_embedding.__class__", "generator.__class__", "decoder.__class__",
)  # fmt: skip
_of_norm = attrgetter("gamma.data", "beta.data", "eps", "__class__")
_of_state = attrgetter("positions", "visible", "layers", "memory_mask")
#: model -> what it was made of when it was looked at last, and what its steps are made of.
_SEEN: WeakKeyDictionary[Any, tuple[list[Any], Any]] = WeakKeyDictionary()


def step_at_once(model: Any, tokens: Array, state: DecodeState) -> Array | None:
    """model.step from tokens (B, 1) to logits (B, 1, V); None if there is no body for this case."""
    steps = _prepared(model, tokens, state)
    return None if steps is None else steps(tokens, state.length)


def likeliest_at_once(
    model: Any, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """Up to count times model.step, each row fed the likeliest token of the step before: (n, B), those chosen.

    tokens (B,), boolean going (B,) and the rest as DecoderSteps.write has them, which this is: None without it.
    """
    tokens, _ = next_tokens(tokens, model.config.tgt_vocab_size, model.backend)
    steps, pad_id = _prepared(model, tokens, state), model.config.pad_id
    if steps is None:
        return None
    state.admit(tokens != pad_id)
    count = min(count, state.max_len - state.length)
    chosen: HostArray | None = steps.write(tokens, state.length, going, (eos_id, pad_id), count)
    if chosen is not None:
        state.length += len(chosen)
    return chosen


def _prepared(model: Any, tokens: Array, state: DecodeState) -> Any:
    """The backend's steps of this model and state, from tokens (B, 1); None if there are none for them."""
    if model.backend.decoder_steps is None or tokens.shape[1] != 1:
        return None
    weights = _weights(model)
    made_of = [weights, *_of_state(state)]
    if state.at_once is None or not _same(made_of, state.at_once[0]):
        state.at_once = (made_of, None if weights is None else weights(state))
    return state.at_once[1]


def _weights(model: Any) -> Any:
    """What the backend makes steps of, for any state; looked at anew when one of them was replaced."""
    made_of = _made_of(model)
    seen = _SEEN.get(model)
    if seen is None or not _same(made_of, seen[0]):
        parts = _parts(model)
        weights = None if parts is None else model.backend.decoder_steps(parts, model.backend.threads)
        _SEEN[model] = seen = (made_of, weights)
    return seen[1]


def _made_of(model: Any) -> list[Any]:
    """Everything of a model that a prepared step depends on."""
    found = [*_of_model(model)]
    weight, norm = model.generator.weight, model.decoder.norm
    found.append(getattr(weight, "owner", weight).data)  # a tied one is a view
    if norm is not None:
        found += _of_norm(norm)
    for layer in model.decoder.layers:
        found += _of_layer(layer)
    return found


def _same(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and all(map(is_, now, then))


def _parts(model: Any) -> DecoderParts | None:
    """The parts of a decoder as it comes; None if one is of another kind, or norms differ in eps."""
    norm, layers = model.decoder.norm, model.decoder.layers
    kinds = [type(model.tgt_embedding), type(model.generator), type(model.decoder)]
    expected: list[type] = [Embedding, Linear, DecoderStack]
    if norm is not None:
        kinds, expected = [*kinds, type(norm)], [*expected, LayerNorm]
    found, numbers = [], set() if norm is None else {norm.eps}
    for values in map(_of_layer, layers):
        options, own_kinds = values[len(_WEIGHTS) :][: len(_OPTIONS)], values[-len(_KINDS) :]
        parts = values[len(_WEIGHTS) + len(_OPTIONS) :][: len(_ABSENT)]
        order, activation, heads, cross_heads, *eps = options
        if cross_heads != heads or own_kinds != tuple(_KINDS.values()) or parts != (None, None):
            return None
        numbers |= set(eps)
        found.append(LayerParts(order, activation, heads, values[: len(_WEIGHTS)]))
    if kinds != expected or len(numbers) != 1:
        return None
    return DecoderParts(
        model.tgt_embedding.weight.data, model.tgt_embedding.scale, tuple(found),
        None if norm is None else (norm.gamma.data, norm.beta.data), numbers.pop(),
        model.generator.weight.data, model.generator.bias.data,
    )  # fmt: skip
