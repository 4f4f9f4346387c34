"""Whole networks."""

from .config import TransformerConfig
from .transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]
