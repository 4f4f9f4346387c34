"""The norms that a layer can have, by name."""

from __future__ import annotations

from typing import Any, TypeAlias

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.functional import AttentionMask
from npformer.layers.batch_norm import BatchNorm
from npformer.layers.call_tree import RandomKey
from npformer.layers.layer_norm import LayerNorm

Norm: TypeAlias = LayerNorm | BatchNorm
NORMS: dict[str, type[Norm]] = {"layer": LayerNorm, "batch": BatchNorm}


def make_norm(norm: str, d_model: int, backend: Backend) -> Norm:
    """The norm called so, over d_model columns. Raises ConfigError for another name."""
    if norm not in NORMS:
        raise ConfigError(f"norm: expected one of {', '.join(NORMS)}, got {norm!r}")
    return NORMS[norm](d_model, backend=backend)


def about_tokens(mask: AttentionMask, key: RandomKey | None) -> dict[str, Any]:
    """What a norm over a batch has to know: which tokens count, those that may be looked at, and whether it trains."""
    return {"visible": mask.key_visible, "training": key is not None}
