"""The table of operations: which kernel runs for each pair.

``PLAIN`` holds the pairs of ``functional``. A backend swaps kernels with ``dataclasses.replace``,
a forward together with its backward, so a cache is never read by anyone but the pair that made it.
Nothing above the backend changes when a kernel does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, NamedTuple

from npformer import functional as F  # noqa: N812 - the usual short name for it
from npformer.functional.philox import Bits
from npformer.typing import Array

Forward = Callable[..., tuple[Any, Any]]
Backward = Callable[..., Any]


class Pair(NamedTuple):
    """One operation as the layers call it.

    ``forward(*inputs) -> (y, cache)``.
    ``backward(dy, cache, into=())`` adds the gradients of the last ``len(into)`` inputs, the
    parameters, to the arrays in ``into`` (None: frozen, skipped) and returns the gradients of the
    others: the array itself if it is one, a tuple if there are several, None if there are none.
    """

    forward: Forward
    backward: Backward


def plain_pair(forward: Forward, backward: Callable[[Any, Any], tuple[Array, ...]]) -> Pair:
    """A Pair from a pure forward and a pure backward that returns all gradients as a tuple."""

    @wraps(backward)
    def backward_into(dy: Any, cache: Any, into: Sequence[Array | None] = ()) -> Any:
        return settle(backward(dy, cache), into)

    return Pair(forward, backward_into)


def settle(gradients: tuple[Array, ...], into: Sequence[Array | None]) -> Any:
    """What a Pair's backward does with all its gradients: add the parameters', return the others' as Pair promises."""
    rest = add_into(gradients, into)
    return rest[0] if len(rest) == 1 else (rest or None)


def add_into(gradients: Sequence[Any], into: Sequence[Array | None]) -> tuple[Array, ...]:
    """Add the last len(into) gradients to its arrays (None: skipped); returns the others."""
    first_parameter = len(gradients) - len(into)
    for total, gradient in zip(into, gradients[first_parameter:], strict=True):
        if total is not None:
            total += gradient  # in place: total is a view of where the gradient lives
    return tuple(gradients[:first_parameter])


@dataclass(frozen=True)
class Ops:
    """One Pair for each operation of ``functional``, in its teaching order."""

    linear: Pair
    relu: Pair
    gelu: Pair
    softmax: Pair
    dropout: Pair
    embedding: Pair
    sinusoidal_positions: Pair
    learned_positions: Pair
    rotary: Pair
    relative_bias: Pair
    layer_norm: Pair
    batch_norm: Pair
    batch_norm_inference: Pair
    attention: Pair
    biased_attention: Pair
    local_attention: Pair
    linear_attention: Pair
    residual: Pair
    post_norm: Pair
    add_norm: Pair
    feed_forward: Pair
    cross_entropy: Pair
    gru: Pair
    conv1d: Pair


PLAIN = Ops(
    linear=plain_pair(F.linear_forward, F.linear_backward),
    relu=plain_pair(F.relu_forward, F.relu_backward),
    gelu=plain_pair(F.gelu_forward, F.gelu_backward),
    softmax=plain_pair(F.softmax_forward, F.softmax_backward),
    dropout=plain_pair(F.dropout_forward, F.dropout_backward),
    embedding=plain_pair(F.embedding_forward, F.embedding_backward),
    sinusoidal_positions=plain_pair(F.sinusoidal_positions_forward, F.sinusoidal_positions_backward),
    learned_positions=plain_pair(F.learned_positions_forward, F.learned_positions_backward),
    rotary=plain_pair(F.rotary_forward, F.rotary_backward),
    relative_bias=plain_pair(F.relative_bias_forward, F.relative_bias_backward),
    layer_norm=plain_pair(F.layer_norm_forward, F.layer_norm_backward),
    batch_norm=plain_pair(F.batch_norm_forward, F.batch_norm_backward),
    batch_norm_inference=plain_pair(F.batch_norm_inference_forward, F.batch_norm_inference_backward),
    attention=plain_pair(F.attention_forward, F.attention_backward),
    biased_attention=plain_pair(F.biased_attention_forward, F.biased_attention_backward),
    local_attention=plain_pair(F.local_attention_forward, F.local_attention_backward),
    linear_attention=plain_pair(F.linear_attention_forward, F.linear_attention_backward),
    residual=plain_pair(F.residual_forward, F.residual_backward),
    post_norm=plain_pair(F.post_norm_forward, F.post_norm_backward),
    add_norm=plain_pair(F.add_norm_forward, F.add_norm_backward),
    feed_forward=plain_pair(F.feed_forward_forward, F.feed_forward_backward),
    cross_entropy=plain_pair(F.cross_entropy_forward, F.cross_entropy_backward),
    gru=plain_pair(F.gru_forward, F.gru_backward),
    conv1d=plain_pair(F.conv1d_forward, F.conv1d_backward),
)

#: The operations that draw dropout masks.
DRAWING = (
    "dropout",
    "attention",
    "biased_attention",
    "local_attention",
    "residual",
    "post_norm",
    "add_norm",
    "feed_forward",
)


def with_bits(ops: Ops, bits: Bits) -> Ops:
    """The same operations with dropout bits drawn by ``bits``, a faster spelling of philox_bits."""
    pairs = {name: getattr(ops, name) for name in DRAWING}
    return replace(ops, **{name: Pair(partial(p.forward, bits=bits), p.backward) for name, p in pairs.items()})
