"""The norms by name, and the interface of a norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.functional import AttentionMask
from npformer.layers.batch_norm import BatchNorm
from npformer.layers.call_tree import RandomKey
from npformer.layers.layer_norm import LayerNorm
from npformer.typing import Array

NORMS: dict[str, type[LayerNorm | BatchNorm]] = {"layer": LayerNorm, "batch": BatchNorm}


class Norm(Protocol):
    """Any layer from (B, T, C) to (B, T, C)."""

    @property
    def forward(self) -> Callable[..., tuple[Array, Any]]:
        """x (B, T, C) to (y (B, T, C), cache)."""

    def backward(self, dy: Array, cache: Any, /) -> Array:
        """dy (B, T, C) to dx (B, T, C); adds to the gradients of its parameters."""


def make_norm(norm: str, d_model: int, backend: Backend) -> LayerNorm | BatchNorm:
    """The norm with this name, over d_model columns. Raises ConfigError for another name."""
    if norm not in NORMS:
        raise ConfigError(f"norm: expected one of {', '.join(NORMS)}, got {norm!r}")
    return NORMS[norm](d_model, backend=backend)


def about_tokens(norm: object, mask: AttentionMask, key: RandomKey | None) -> dict[str, Any]:
    """The further arguments of a norm over the batch: which tokens count, and whether it trains. Others have none."""
    if not getattr(norm, "over_batch", False):
        return {}
    return {"visible": mask.key_visible, "training": key is not None}
