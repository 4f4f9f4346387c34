"""A model in one file: safetensors, its arrays by name, and in the metadata which model it is and its configuration."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from npformer.backend import Backend
from npformer.backend.arena import expect_unique
from npformer.errors import CheckpointError, NpformerError
from npformer.layers import Layer
from npformer.models import Model, build_model
from npformer.models.kinds import MODELS
from npformer.training.atomic import describe, write_atomically
from npformer.typing import HostArray

FORMAT = "npformer-model-1"


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write model's arrays and configuration to path (a .safetensors file), replacing it atomically.

    A subclass of one of npformer's models is saved as that, and loaded as that, if it has no arrays but that model's.
    Raises CheckpointError if it is none of them, or cannot be written; an existing file is then as it was.
    """
    kind = next((name for name, (described, _) in MODELS.items() if isinstance(model, described)), None)
    if kind is None:
        raise CheckpointError(f"model: expected one of {', '.join(MODELS)}, got {type(model).__name__}")
    config = json.dumps(dataclasses.asdict(model.config))
    metadata = {"format": FORMAT, "model": kind, "config": config}
    data = to_bytes({k: np.ascontiguousarray(v) for k, v in model_arrays(model).items()}, metadata)
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise CheckpointError(
            f"{path}: expected a place to write {len(data):,} bytes, got: {describe(error)}"
        ) from error


def load(path: str | os.PathLike[str], *, backend: Backend | None = None) -> Model:
    """The model saved at path, a Transformer, Encoder or Decoder, on backend (default: get_backend("auto")).

    Raises CheckpointError if the file is missing, truncated, corrupt, or not a model of npformer.
    """
    metadata, arrays = read_arrays(Path(path))
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: expected a model saved by npf.save, got a file without its mark")
    kind = metadata.get("model", "Transformer")  # the one that there was before files said so
    if kind not in MODELS:
        raise CheckpointError(
            f"{path}: expected a model of {', '.join(MODELS)}, got {kind!r}; use the version of npformer that wrote it"
        )
    try:
        config = MODELS[kind][1](**json.loads(metadata["config"]))
    except (KeyError, TypeError, ValueError) as error:
        article = "an" if kind == "Encoder" else "a"
        raise CheckpointError(f"{path}: expected a configuration of {article} {kind}, got: {error}") from error
    model = build_model(config, backend=backend)
    set_arrays(model, arrays, str(path))
    return model


def model_arrays(model: Layer) -> dict[str, HostArray]:
    """Name -> host array, of every parameter and buffer (views where the model lives on the host)."""
    return {name: model.backend.host(array) for name, array in arrays_in(model).items()}


def arrays_in(model: Layer) -> dict[str, Any]:
    """Name -> device array, of every parameter and buffer: what a model is, beside its configuration."""
    named: list[tuple[str, Any]] = [*model.named_parameters(), *model.named_buffers()]
    expect_unique(name for name, _ in named)
    return {name: each.data for name, each in named}


def set_arrays(model: Layer, arrays: Mapping[str, HostArray], source: str) -> None:
    """Copy arrays into the parameters and buffers of the same names.

    Raises CheckpointError, and changes nothing, unless names and shapes are exactly the model's.
    """
    copy_arrays(arrays_in(model), arrays, model.backend, source)


def copy_arrays(targets: Mapping[str, Any], arrays: Mapping[str, HostArray], backend: Backend, source: str) -> None:
    """Copy arrays into targets by name; all or nothing, as in ``set_arrays``."""
    problems = [f"{name} is missing" for name in targets if name not in arrays]
    problems += [f"{name} is not part of the model" for name in arrays if name not in targets]
    problems += [
        f"{name}: expected {tuple(target.shape)} {target.dtype}, got {arrays[name].shape} {arrays[name].dtype}"
        for name, target in targets.items()
        if name in arrays and (arrays[name].shape != target.shape or str(arrays[name].dtype) != str(target.dtype))
    ]
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise CheckpointError(f"{source}: does not fit the model: {shown}; is it of another configuration or dtype?")
    for name, target in targets.items():
        target[...] = backend.array(arrays[name])


def read_arrays(path: Path) -> tuple[dict[str, str], dict[str, HostArray]]:
    """Metadata and arrays of a safetensors file. Raises CheckpointError if it is missing, truncated or corrupt."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: expected a model file, found nothing; check the name") from error
    except OSError as error:
        raise CheckpointError(f"{path}: expected a model file to read, got: {describe(error)}") from error
    except NpformerError:
        raise
    except TypeError as error:  # NumPy has no bfloat16
        raise CheckpointError(f"{path}: expected arrays that NumPy has a dtype for, got: {error}") from error
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path}: expected a whole safetensors file, got one that is truncated or corrupt ({error})"
        ) from error
