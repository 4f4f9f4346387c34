"""Clipping by the global norm: if all gradients together are too long, all are shortened alike.

    n = √(Σ over all trainable parameters of g²)      g ← g·c/max(n, c)

The direction stays; clipping each tensor by its own norm would turn it.

Source: Pascanu, Mikolov & Bengio 2013, arXiv:1211.5063, algorithm 1.
"""

from __future__ import annotations

import math

from npformer.backend import Arena
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.typing import Array


def global_norm(arena: Arena) -> Array:
    """The length n of all trainable gradients together, a scalar array ()."""
    xp = namespace(arena.grads)
    total = sum(xp.sum(arena.grads[run.where] * arena.grads[run.where]) for run in arena.runs(decaying=False))
    return xp.sqrt(xp.asarray(total, dtype=arena.grads.dtype))


def clip_by_global_norm(arena: Arena, clip_norm: float) -> Array:
    """Shorten the trainable gradients to clip_norm if they are longer. Returns n () as it was before.

    Infinity shortens nothing. Raises ConfigError unless clip_norm > 0.
    """
    if not clip_norm > 0:
        raise ConfigError(f"clip_norm: expected a number > 0 or None, got {clip_norm}")
    norm = global_norm(arena)
    if math.isinf(clip_norm):  # and inf/inf is no number
        return norm
    xp = namespace(norm)
    longest = xp.where(norm > clip_norm, norm, xp.full_like(norm, clip_norm))
    for run in arena.runs(decaying=False):
        gradient = arena.grads[run.where]
        gradient *= clip_norm / longest
    return norm
