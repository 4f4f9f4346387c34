"""Whole networks: ``config``, ``transformer``, ``one_sequence`` with ``encoder`` and ``decoder``."""

from npformer.models.config import DecoderConfig, EncoderConfig, TransformerConfig
from npformer.models.decoder import Decoder
from npformer.models.encoder import Encoder
from npformer.models.kinds import Model, build_model
from npformer.models.transformer import Transformer

__all__ = [
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Model",
    "Transformer",
    "TransformerConfig",
    "build_model",
]
