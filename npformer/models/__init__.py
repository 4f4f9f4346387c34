"""Whole networks."""

from npformer.models.config import TransformerConfig
from npformer.models.transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]
