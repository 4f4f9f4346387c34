"""What a run logs of each part of its model when it evaluates: of each sub-layer, embedding, last norm and output map.

    n_part = √(Σ over the part's trainable parameters of g²)      n² = Σ over parts of n_part²
    update = √(Σ of (p − p_before)²) / √(Σ of p_before²)          by the last step

Norms are those before clipping, of the gradients that the last step left in the arena, whether clipped or not.

``look_inside`` needs one forward of the step's batch, on the host with the plain kernels: of each attention the share
of queries of which one visible key of several has more than SURE of the weight, so that the softmax hardly passes a
gradient; of each feed-forward the share of hidden units that are ≤ 0 before the activation at every token, so that
ReLU's gate is closed and GELU's nearly. Padding counts in neither.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from npformer.backend import Arena, get_backend
from npformer.layers import AttentionRecorder, Context, FeedForward, MultiHeadAttention
from npformer.layers.mechanisms import ScaledDotProduct
from npformer.models import Model, build_model
from npformer.typing import HostArray

#: What the fields of a line of metrics begin with, before the part's name.
NORM, UPDATE, SATURATED, DEAD = "norm.", "update.", "saturated.", "dead."
#: Of a row that is saturated, the largest weight.
SURE = 0.99
#: Weights of one attention that are looked at: fewer rows of a batch of long texts.
MOST_WEIGHTS = 2**22
_PART = re.compile(r"(?:.*?\blayers\.\d+\.[^.]+)(?=\.)|.*(?=\.)")


def part_of(name: str) -> str:
    """The part that a parameter belongs to: decoder.layers.0.norm1, generator."""
    part = _PART.match(name)
    return part.group() if part else name


def layer_fields(model: Model, whole: float | None, before: HostArray, inputs: Sequence[HostArray]) -> dict[str, float]:
    """The fields of a line after a step on these inputs; whole, before: as ``layer_norms``, ``update_ratios`` say."""
    found = {NORM: layer_norms(model.arena, whole), UPDATE: update_ratios(model.arena, before)}
    named = {field + part: value for field, values in found.items() for part, value in values.items()}
    return named | look_inside(model, inputs)


def layer_norms(arena: Arena, whole: float | None) -> dict[str, float]:
    """Part -> norm of its gradient, in the order of the parameters; frozen parameters are left out.

    whole: the norm of all gradients before clipping, or None if it was not taken, and then nothing was clipped.
    """
    norms = _lengths(arena, arena.backend.host(arena.grads))
    left = math.hypot(*norms.values())
    scale = whole / left if whole is not None and math.isfinite(whole) and 0 < left < math.inf else 1.0
    return {name: scale * norm for name, norm in norms.items()}


def update_ratios(arena: Arena, before: HostArray) -> dict[str, float]:
    """Part -> length of its change since before (n,), over its length then; without what was 0 or is frozen."""
    moved = _lengths(arena, arena.backend.host(arena.values) - before)
    return {name: moved[name] / length for name, length in _lengths(arena, before).items() if length}


def _lengths(arena: Arena, flat: HostArray) -> dict[str, float]:
    """Part -> Euclidean length of its trainable numbers in an array (n,) over the arena."""
    squares: dict[str, float] = {}
    for segment in arena.segments:
        if segment.trainable:
            part = flat[segment.start : segment.stop].astype(np.float64)
            name = part_of(segment.name)
            squares[name] = squares.get(name, 0.0) + float(np.dot(part, part))
    return {name: math.sqrt(square) for name, square in squares.items()}


def look_inside(model: Model, inputs: Sequence[HostArray]) -> dict[str, float]:
    """Fields SATURATED and DEAD of each layer that has them, for ids (B, T) of a batch. The model stays as it is."""
    twin = build_model(model.config, backend=get_backend("numpy", model.backend.dtype, kernels="plain"))
    theirs: Any
    mine: Any
    theirs, mine = ([*each.named_parameters(), *each.named_buffers()] for each in (model, twin))
    if [(name, tuple(one.data.shape)) for name, one in theirs] != [(name, one.data.shape) for name, one in mine]:
        return {}  # with parts of its own
    for (_, one), (_, other) in zip(mine, theirs, strict=True):
        one.data[...] = model.backend.host(other.data)
    found: dict[str, float] = {}
    for layer in twin.all_layers():
        if isinstance(layer, FeedForward | MultiHeadAttention):
            layer.forward = partial(_looked_at, layer, layer.forward, found)  # type: ignore[method-assign]
    longest = max(x.shape[1] for x in inputs)
    rows = slice(max(1, MOST_WEIGHTS // (model.config.num_heads * longest**2)))
    with np.errstate(all="ignore"):  # a model that has diverged
        twin.forward(*(x[rows] for x in inputs), recorder=AttentionRecorder())
    return found


def _looked_at(
    layer: Any, forward: Callable[..., Any], found: dict[str, float], x: HostArray, *memory: HostArray, context: Context
) -> Any:
    """The layer's forward; its share is added to found under the layer's name."""
    result, recorder, seen = forward(x, *memory, context=context), context.recorder, context.mask.key_visible
    assert recorder is not None
    tokens = np.ones(x.shape[:2], bool) if seen is None else seen
    if isinstance(layer, FeedForward):
        hidden = x[tokens] @ layer.up.weight.data + layer.up.bias.data  # (N, F)
        found[DEAD + recorder.path] = float(np.mean(~np.any(hidden > 0, axis=0)))
    elif isinstance(layer.mechanism, ScaledDotProduct):
        weights, mask = recorder.weights.pop(recorder.path), context.memory_mask if memory else context.mask
        q, k = (np.zeros((len(x), 1, size, 1)) for size in weights.shape[2:])  # scores 0: 1 over the visible keys
        even = layer.mechanism.weights(q, k, mask, None)[:, 0].max(axis=-1)  # (B, T)
        several = tokens & (even > 0) & (even <= 0.5)
        if several.any():
            found[SATURATED + recorder.path] = float(np.mean(weights.max(axis=-1).swapaxes(1, 2)[several] > SURE))
    return result


def fields_in(record: Mapping[str, float], field: str = NORM) -> dict[str, float]:
    """Part -> what the fields that begin so say, of a line of metrics of the kind "gradient"."""
    return {name.removeprefix(field): value for name, value in record.items() if name.startswith(field)}
