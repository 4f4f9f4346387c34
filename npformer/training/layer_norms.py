"""The gradient's norm of each part of a model: of each sub-layer, embedding, last norm and output map.

    n_part = √(Σ over the part's trainable parameters of g²)      n² = Σ over parts of n_part²

They are taken from the gradients that the last step left in the arena, so no backward runs for them, and only when a
run evaluates. Norms are those before clipping, whether the arena holds the clipped gradients or not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from npformer.backend import Arena

#: What the fields of a line of metrics with norms begin with.
FIELD = "norm."
_PART = re.compile(r"(?:.*?\blayers\.\d+\.[^.]+)(?=\.)|.*(?=\.)")


def part_of(name: str) -> str:
    """The part that a parameter belongs to: decoder.layers.0.norm1, generator."""
    part = _PART.match(name)
    return part.group() if part else name


def layer_norms(arena: Arena, whole: float | None) -> dict[str, float]:
    """Part -> norm of its gradient, in the order of the parameters; frozen parameters are left out.

    whole: the norm of all gradients before clipping, or None if it was not taken, and then nothing was clipped.
    """
    grads = arena.backend.host(arena.grads)
    squares: dict[str, float] = {}
    for segment in arena.segments:
        if segment.trainable:
            part = grads[segment.start : segment.stop].astype(np.float64)
            name = part_of(segment.name)
            squares[name] = squares.get(name, 0.0) + float(np.dot(part, part))
    left = math.sqrt(sum(squares.values()))
    scale = whole / left if whole is not None and math.isfinite(whole) and 0 < left < math.inf else 1.0
    return {name: scale * math.sqrt(square) for name, square in squares.items()}


def norms_in(record: Mapping[str, float]) -> dict[str, float]:
    """Part -> norm, of a line of metrics of the kind "gradient"."""
    return {name.removeprefix(FIELD): value for name, value in record.items() if name.startswith(FIELD)}
