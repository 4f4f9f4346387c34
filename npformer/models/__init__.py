"""Whole networks."""

from npformer.models.config import TransformerConfig
from npformer.models.transformer import Transformer
from npformer.models.twin import gradient_twin

__all__ = ["Transformer", "TransformerConfig", "gradient_twin"]
