"""The initial models of contenders, and a file of their weights for processes without npformer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import npformer as npf
from npformer.backend import Backend
from npformer.interop.torch import save_state_dict
from npformer.models.presets import Preset

NO_END = -1  # not a token: every contender decodes to the full length
NEVER = -1e4  # with this bias a token is never the likeliest


def training_model(preset: Preset, dropout: float, backend: Backend, recompute: bool = False) -> npf.Transformer:
    """The model that training starts from."""
    return npf.Transformer(replace(preset.config(dropout), recompute=recompute), backend=backend, seed=0)


def decoding_model(preset: Preset, backend: Backend) -> npf.Transformer:
    """A model that never predicts the pad token, so that its output needs no mask."""
    model = training_model(preset, 0.0, backend)
    model.generator.bias.data[model.config.pad_id] = NEVER
    return model


def sources(preset: Preset, batch: int) -> npt.NDArray[np.int64]:
    """Source sentences (B, S) without padding."""
    return np.random.default_rng(1).integers(1, preset.vocab_size, (batch, preset.length))


def save_weights(preset: Preset, folder: Path, decoding: bool = False) -> str:
    """Write that model's weights, under PyTorch's names, into folder. Returns the path."""
    path, backend = folder / "weights.safetensors", npf.get_backend("numpy", kernels="plain")
    save_state_dict(decoding_model(preset, backend) if decoding else training_model(preset, 0.0, backend), path)
    return str(path)
