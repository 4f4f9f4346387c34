"""The weights and options of a stack, for a fused kernel that computes all its layers in one call.

Such a kernel is prepared for one version of a model (see ``layers/owner.py``). Replacing an array, an option or a layer
prepares it again. Values changed in place, as by an optimiser, need no new preparation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from npformer.engine.static import has_own_ops, is_static
from npformer.layers import FeedForward, LayerNorm, Linear, MultiHeadAttention, ScaledDotProduct
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.owner import version_of
from npformer.layers.stacks import DecoderStack, EncoderStack
from npformer.typing import Array

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
