"""The norms by name, and the interface of a norm. To add one: ``docs/adding-an-operation.md``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.layers.batch_norm import BatchNorm
from npformer.layers.layer_norm import LayerNorm
from npformer.typing import Array


class Norm(Protocol):
    """Any layer from (B, T, C) to (B, T, C)."""

    @property
    def forward(self) -> Callable[..., tuple[Array, Any]]:
        """x (B, T, C) and the keyword context to (y (B, T, C), cache)."""

    def backward(self, dy: Array, cache: Any, /) -> Array:
        """dy (B, T, C) to dx (B, T, C); adds to the gradients of its parameters."""


#: How a configuration names a norm, and what makes it.
NormName: TypeAlias = Literal["layer", "batch"]
NORMS: dict[str, Callable[..., Norm]] = {"layer": LayerNorm, "batch": BatchNorm}


def make_norm(norm: str, d_model: int, backend: Backend) -> Norm:
    """The norm with this name, over d_model columns. Raises ConfigError for another name."""
    if norm not in NORMS:
        raise ConfigError(f"norm: expected one of {', '.join(NORMS)}, got {norm!r}")
    return NORMS[norm](d_model, backend=backend)
