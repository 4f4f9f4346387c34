"""Gradient clipping by the global norm: if the norm of all gradients is too large, all are scaled by the same factor.

    n = √(Σ over all trainable parameters of g²)      g ← g·c/max(n, c)

The direction of the gradient stays the same; clipping each tensor by its own norm would change it.

Source: Pascanu, Mikolov & Bengio 2013, arXiv:1211.5063, algorithm 1.
"""

from __future__ import annotations

import math

from npformer.backend import Arena
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.typing import Array


def global_norm(arena: Arena) -> Array:
    """The norm n of all trainable gradients, a scalar array ()."""
    xp = namespace(arena.grads)
    total = sum(xp.sum(arena.grads[run.where] * arena.grads[run.where]) for run in arena.runs(decaying=False))
    return xp.sqrt(xp.asarray(total, dtype=arena.grads.dtype))


def clip_by_global_norm(arena: Arena, clip_norm: float) -> Array:
    """Scale the trainable gradients down to norm clip_norm if theirs is larger. Returns n (), the norm before.

    With infinity nothing is scaled. Raises ConfigError unless clip_norm > 0.
    """
    if not clip_norm > 0:
        raise ConfigError(f"clip_norm: expected a number > 0 or None, got {clip_norm}")
    norm = global_norm(arena)
    if math.isinf(clip_norm):  # inf/inf would be NaN
        return norm
    xp = namespace(norm)
    longest = xp.where(norm > clip_norm, norm, xp.full_like(norm, clip_norm))
    for run in arena.runs(decaying=False):
        gradient = arena.grads[run.where]
        gradient *= clip_norm / longest
    return norm
