"""The models by name, and building a model from its configuration."""

from __future__ import annotations

from typing import Any, TypeAlias

from npformer.backend import Backend
from npformer.models.config import DecoderConfig, EncoderConfig, ModelConfig, TransformerConfig
from npformer.models.decoder import Decoder
from npformer.models.encoder import Encoder
from npformer.models.transformer import Transformer

#: Any of the three models.
Model: TypeAlias = Transformer | Encoder | Decoder

#: The class of each model and of its configuration, by the name under which a model is saved.
MODELS: dict[str, tuple[Any, type[ModelConfig]]] = {
    "Transformer": (Transformer, TransformerConfig),
    "Encoder": (Encoder, EncoderConfig),
    "Decoder": (Decoder, DecoderConfig),
}


def build_model(config: ModelConfig, *, backend: Backend | None = None, seed: int = 0) -> Model:
    """The model that config describes."""
    kind = next(kind for kind, described in MODELS.values() if isinstance(config, described))
    model: Model = kind(config, backend=backend, seed=seed)
    return model
