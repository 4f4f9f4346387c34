"""A stack's weights and options, read off as it is, for a backend that computes all its layers in one call.

Such a kernel is prepared for a model, and used for as long as the model is made of the very same arrays, numbers and
kinds of layers: replacing one, or a layer, prepares it anew; changing numbers in place, as an optimiser
does, is seen without.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from npformer.layers import FeedForward, LayerNorm, Linear, MultiHeadAttention, ScaledDotProduct
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.layer import changed_by_hand, is_hooked
from npformer.layers.stacks import DecoderStack, EncoderStack
from npformer.typing import Array

#: model -> what it was made of when it was looked at last, and what was prepared of that.
Seen: TypeAlias = "WeakKeyDictionary[Any, tuple[list[Any], Any]]"


class LayerParts(NamedTuple):
    """What one layer computes with."""

    norm_order: str
    activation: str
    heads: int
    weights: tuple[Array, ...]  # of each sub-layer in turn: two weights with their biases, γ and β


class StackParts(NamedTuple):
    """What a stack computes with."""

    layers: tuple[LayerParts, ...]
    norm: tuple[Array, Array] | None  # γ and β of the final norm
    eps: float  # of all norms


class StackReader:
    """Reads stacks of one kind, whose layers have these attentions and then a feed-forward."""

    def __init__(self, stack: type, layer: type, attentions: tuple[str, ...]) -> None:
        sub_layers = [*((name, f"{name}.output") for name in attentions), ("feed_forward.up", "feed_forward.down")]
        norms = [f"norm{i + 1}" for i in range(len(sub_layers))]
        kinds: dict[str, type] = {"": layer, "feed_forward.": FeedForward} | {f"{norm}.": LayerNorm for norm in norms}
        for name in attentions:
            kinds |= {
                f"{name}.": MultiHeadAttention, f"{name}.mechanism.": ScaledDotProduct, f"{name}.output.": Linear,
            }  # fmt: skip
        weights = [
            f"{part}.{name}.data"
            for (first, second), norm in zip(sub_layers, norms, strict=True)
            for part, names in ((first, "weight bias"), (second, "weight bias"), (norm, "gamma beta"))
            for name in names.split()
        ]
        self._stack, self._kinds = stack, tuple(kinds.values())
        self._groups = (
            weights, [f"{name}.num_heads" for name in attentions], [f"{norm}.eps" for norm in norms],
            [f"{name}.{part}" for name in attentions for part in ("rotation", "score_bias")],
            [f"{part}__class__" for part in kinds], ["norm_order", "feed_forward.activation"],
        )  # fmt: skip
        self._of_layer = attrgetter(*(name for group in self._groups for name in group))

    def made_of(self, stack: Any) -> list[Any]:
        """Everything of a stack that what is prepared of it depends on; of one with foreign parts, nothing."""
        found = [stack.__class__, stack.norm]
        try:
            if stack.norm is not None:
                found += _of_norm(stack.norm)
            for layer in stack.layers:
                found += self._of_layer(layer)
        except AttributeError:  # a part from elsewhere is made of something else
            return []
        return found

    def read(self, stack: Any) -> StackParts | None:
        """Its parts; None if it or a part of it is of another kind, or norms differ in eps."""
        if not self.made_of(stack):
            return None
        norm, layers = stack.norm, []
        eps = set() if norm is None else {norm.eps}
        for values in map(self._of_layer, stack.layers):
            groups, start = [], 0
            for group in self._groups:
                groups.append(values[start : start + len(group)])
                start += len(group)
            weights, heads, own_eps, absent, kinds, (order, activation) = groups
            if len(set(heads)) != 1 or kinds != self._kinds or any(part is not None for part in absent):
                return None
            eps |= set(own_eps)
            layers.append(LayerParts(order, activation, heads[0], weights))
        if type(stack) is not self._stack or len(eps) != 1 or not (norm is None or type(norm) is LayerNorm):
            return None
        return StackParts(tuple(layers), None if norm is None else (norm.gamma.data, norm.beta.data), eps.pop())


_of_norm = attrgetter("gamma.data", "beta.data", "eps", "__class__")
ENCODER = StackReader(EncoderStack, EncoderLayer, ("self_attention",))
DECODER = StackReader(DecoderStack, DecoderLayer, ("self_attention", "cross_attention"))


def same(now: list[Any], then: list[Any]) -> bool:
    """Whether both are lists of the very same things."""
    return len(now) == len(then) and all(map(is_, now, then))


def prepared(seen: Seen, model: Any, made_of: list[Any], prepare: Callable[[], Any]) -> Any:
    """What prepare() returned when model was made of these things, with the same backend; called anew if it was not.

    None if an operation, or a layer's method, is somebody's own.
    """
    made_of = [model.backend, changed_by_hand[0], *made_of]
    found = seen.get(model)
    if found is None or not same(made_of, found[0]):
        is_own = model.has_own_ops() and not any(is_hooked(each) for each in model.all_layers() if each is not model)
        seen[model] = found = (made_of, prepare() if is_own else None)
    return found[1]
