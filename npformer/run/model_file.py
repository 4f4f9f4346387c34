"""A model in one safetensors file: its arrays by name; its class and configuration are in the metadata.

A file may come from an untrusted source. Its configuration is compared with its table of arrays before any number is
read or a model is built. A SHA-256 in the metadata covers the rest of the file's content. A model that could not be
loaded again is not saved. A tokenizer goes along in the metadata, so that ``npformer decode FILE`` can read texts,
and so do the classes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from npformer.backend import Backend, get_backend
from npformer.data import Characters, MarkedWords, SpelledWords, Tokenizer, Vocabulary, WordPiece, Words
from npformer.errors import CheckpointError, ConfigError, DeviceMemoryError, NpformerError
from npformer.io.atomic_files import describe, write_atomically
from npformer.io.printable import shell_words
from npformer.models import Model, build_model
from npformer.models.config import ModelConfig
from npformer.models.kinds import MODELS
from npformer.run.checkpoint import ARRAYS
from npformer.run.config_file import fitted, shown
from npformer.run.model_arrays import (
    Table,
    expect_arrays,
    expect_finite_weights,
    misfits,
    model_arrays,
    set_arrays,
    table_of,
)
from npformer.run.tasks import ANSWERS
from npformer.run.trained import Trained, read_trained, run_of
from npformer.typing import HostArrays, Tensors

TOKENIZERS: dict[str, type[Tokenizer]] = {
    kind.__name__: kind for kind in (Characters, MarkedWords, SpelledWords, WordPiece, Words)
}


def text_metadata(tokenizer: Tokenizer | None, classes: Sequence[str], config: ModelConfig) -> dict[str, str]:
    """The metadata of a tokenizer and of classes; none without a tokenizer. Raises CheckpointError if one is unfit."""
    if tokenizer is None:
        return {}
    kind = type(tokenizer).__name__
    if TOKENIZERS.get(kind) is not type(tokenizer):
        raise CheckpointError(
            f"tokenizer: expected one of {', '.join(TOKENIZERS)}, got {kind}; leave it out, and keep it yourself"
        )
    if problem := _misfit(tokenizer, classes, config):
        raise CheckpointError(problem)
    return {"tokenizer": json.dumps([kind, *tokenizer.vocabulary.pieces]), "classes": json.dumps(list(classes))}


def text_in(metadata: Mapping[str, str], config: ModelConfig, source: str) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """The tokenizer and the classes in the metadata; None and () if it has none. Raises CheckpointError."""
    if "tokenizer" not in metadata:
        return None, ()
    try:
        kind, *pieces = _texts(metadata["tokenizer"])
        classes = _texts(metadata.get("classes", "[]"))
        tokenizer = TOKENIZERS[kind](Vocabulary(tuple(pieces)))
        if problem := _misfit(tokenizer, classes, config):
            raise ConfigError(problem)
    except (NpformerError, LookupError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: expected a tokenizer that fits the model, got: {error}") from error
    return tokenizer, tuple(classes)


def _texts(text: str) -> list[str]:
    found: Any = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"expected a list of texts, got {shown(found)}")
    return found


def _misfit(tokenizer: Tokenizer, classes: Sequence[str], config: ModelConfig) -> str:
    """What does not fit the sizes of the model; "" if all does."""
    sizes = {
        getattr(config, name) for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size") if hasattr(config, name)
    }
    if sizes != {len(tokenizer.vocabulary)}:
        told = " and ".join(map(str, sorted(sizes)))
        return f"tokenizer: expected a vocabulary of {told} pieces, as the model has, got {len(tokenizer.vocabulary)}"
    count = 0 if getattr(config, "head", "masked") == "masked" else getattr(config, "num_classes", None) or 0
    if len(classes) != count:
        return f"classes: expected {count} names, [PAD] first, as the model has, got {len(classes)}"
    return ""


FORMAT = "npformer-model-2"
AS_IT_IS = "go back to an earlier one, or accept it with expect_finite=False"

#: How files of others begin; a file of torch.save or np.savez is a ZIP archive, whose first member tells which.
_OTHERS = (
    (rb"PK\x03\x04.*data\.pkl", "a file of torch.save"), (rb"PK\x03\x04.*\.npy", "a file of np.savez"),
    (rb"PK\x03\x04", "a ZIP archive"), (rb"\x80[\x02-\x05].{6}[^{]", "a pickle, such as an old file of torch.save"),
    (rb"\x93NUMPY", "a file of np.save"), (rb"GGUF", "a GGUF file of llama.cpp"), (rb"\x89HDF", "an HDF5 file"),
    (rb"\x1f\x8b", "a file compressed by gzip"), (rb"\s*<", "a web page in place of a file"),
    (rb"version https://git-lfs", "a pointer of Git LFS, for which git lfs pull fetches the file"),
)  # fmt: skip
READS = (
    "npf.load reads what npf.save wrote; of a torch.nn.Transformer, npf.interop.torch.load_from_file(model, path) "
    "reads a safetensors file, and load_state_dict(model, state) takes a state_dict()"
)

_DTYPES = {"F16": "float16", "F32": "float32", "F64": "float64"}  # safetensors' names for NumPy's


def save(
    model: Model, path: str | os.PathLike[str], *, tokenizer: Tokenizer | None = None, classes: Sequence[str] = (),
    expect_finite: bool = True,
) -> None:  # fmt: skip
    """Write model's arrays and configuration to path (a .safetensors file), replacing it atomically.

    tokenizer (default: model.tokenizer) goes into the same file, and so do classes, the names by id, the first one
    [PAD]. Then ``npformer decode`` takes the file, and ``load`` sets them on the model.
    A subclass of an npformer model is saved, and loaded, as that model if it redefines nothing.
    Raises CheckpointError if model is not an npformer model, or not what ``load`` would build, has weights that are not
    finite (unless expect_finite is False), or cannot be written; an existing file is then unchanged.
    """
    kind = next((name for name, (described, _) in MODELS.items() if isinstance(model, described)), None)
    if kind is None:
        raise CheckpointError(f"model: expected one of {', '.join(MODELS)}, got {type(model).__name__}")
    metadata = {"format": FORMAT, "model": kind, "config": json.dumps(dataclasses.asdict(model.config))}
    arrays = {name: np.ascontiguousarray(array) for name, array in model_arrays(model).items()}
    if tokenizer is None:
        tokenizer, classes = model.tokenizer, model.classes
    try:
        _expect_readable(metadata, model, arrays)
        metadata |= text_metadata(tokenizer, classes, model.config)
        if expect_finite:
            expect_finite_weights(arrays, "model", AS_IT_IS)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; nothing was written") from None
    data = to_bytes(arrays, metadata | {"sha256": digest(metadata, arrays)})
    write_safetensors(path, data)


def load(
    path: str | os.PathLike[str], *, backend: Backend | None = None, best: bool = False, expect_finite: bool = True
) -> Model:
    """The model in a run's folder, or in a file of ``save``: a Transformer, Encoder or Decoder.

    Its ``tokenizer`` is set, and ``classes``, of a file if it was saved with them. Of a run it is the last checkpoint,
    or the best one if best is True; the path of a checkpoint's folder names another. backend: by default, for a file
    get_backend("auto"), for a run what it was trained with.

    Raises CheckpointError if the file is missing, truncated, corrupt or not a model of npformer, if its arrays are not
    those of its configuration in the backend's dtype, or if weights are not finite: the model had diverged
    (expect_finite=False loads the file anyway). Raises DeviceMemoryError for a model that does not fit into memory.
    The file's content raises no other error. No memory is allocated before its header is checked. A run's files raise
    CheckpointError, ConfigError, DataError or OutputError.
    """
    place = Path(path)
    if _is_run(place):
        run, at = run_of(place)
        return read_trained(run, best=best, at=at, backend=backend).model
    if best:
        raise ConfigError(f"best: expected the folder of a run, which has checkpoints, got {path}; leave it out")
    backend = backend or get_backend()
    metadata, table = _read_header(place)
    config = _config_in(metadata, str(path))
    expect_arrays(config, backend.dtype, table, str(path))
    try:
        _, arrays = read_arrays(place)
        _expect_digest(metadata, arrays, str(path))
        if expect_finite:
            expect_finite_weights(arrays, str(path), AS_IT_IS)
        model = build_model(config, backend=backend)
        set_arrays(model, arrays, str(path))
    except MemoryError as error:
        numbers = sum(math.prod(shape) for shape, _ in table.values())
        raise DeviceMemoryError(
            f"{path}: expected memory for a model of {numbers:,} numbers, got: {error}; use one with more memory"
        ) from error
    model.tokenizer, model.classes = text_in(metadata, config, str(path))
    return model


def load_trained(path: Path, device: str = "auto", best: bool = False) -> Trained:
    """The trained model in a run's folder, or in a file of ``save`` with its tokenizer.

    Raises what ``load`` does, and CheckpointError for a file without a tokenizer.
    """
    if not path.is_file():
        run, at = run_of(path)
        return read_trained(run, device, best, at=at)
    return trained_of(load(path, backend=get_backend(device), best=best), str(path))


def trained_of(model: Model, source: str = "model") -> Trained:
    """A model with the tokenizer that it brings. Raises CheckpointError if it has none."""
    if model.tokenizer is None:
        raise CheckpointError(
            f"{source}: expected a model with its tokenizer, found none: save it with one, by "
            "npf.save(model, path, tokenizer=tokenizer), or give the folder of a run"
        )
    like = (type(model.config), getattr(model.config, "head", None))
    kind = next(kind for kind, answer in ANSWERS.items() if (answer.config, answer.head) == like)
    return Trained(model, model.tokenizer, model.classes, kind)


def write_safetensors(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a safetensors file, replacing an older one. Raises CheckpointError; an existing file is then unchanged."""
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise CheckpointError(
            f"{path}: expected a place to write {len(data):,} bytes, got: {describe(error)}"
        ) from error


def _expect_readable(metadata: Mapping[str, str], model: Model, arrays: Tensors) -> None:
    """Raise CheckpointError unless ``load`` would build this model again."""
    dtype = model.backend.dtype
    if dtype not in _DTYPES.values():
        raise CheckpointError(
            f"model: expected numbers of float32 or float64 to save, got {dtype}, which is for checks"
        )
    if problems := misfits(_config_in(metadata, "model"), dtype, table_of(arrays), model):
        raise CheckpointError(
            f"model: expected the parts and arrays that its configuration describes, as npf.load builds them, got "
            f"others: {problems}; keep its arrays with safetensors.numpy.save_file and build it by your own code, or "
            "put parts of npformer in their place"
        )


def _config_in(metadata: Mapping[str, str], source: str) -> ModelConfig:
    """The configuration that the metadata describes. Raises CheckpointError if there is none."""
    mark = metadata.get("format")
    if mark != FORMAT:
        got = f"a file marked {shown(mark)}" if mark else "a file without its mark"
        if (mark or "").startswith("npformer"):
            got += "; use the version that wrote it"
        else:
            got = _of_a_run(Path(source)) or f"{got}, so of another library; {READS}"
        raise CheckpointError(f"{source}: expected a model saved by npf.save, marked {FORMAT}, got {got}")
    kind = metadata.get("model")
    if kind not in MODELS:
        raise CheckpointError(
            f"{source}: expected a model of {', '.join(MODELS)}, got {shown(kind)}; use the version of npformer that "
            "wrote it"
        )
    try:
        config = json.loads(metadata["config"], object_pairs_hook=_each_once)
        if not isinstance(config, dict):
            raise ConfigError(f"expected options by name, got {shown(config)}")
        return MODELS[kind][1](**fitted(config, MODELS[kind][1]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        article = "an" if kind == "Encoder" else "a"
        raise CheckpointError(f"{source}: expected a configuration of {article} {kind}, got: {error}") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a name with two values is an error."""
    by_name = dict(pairs)
    if len(by_name) < len(pairs):
        raise ConfigError(f"expected each option once, got {', '.join(shown(name) for name, _ in pairs[:20])}")
    return by_name


def digest(metadata: Mapping[str, str], arrays: Tensors) -> str:
    """The SHA-256 of the metadata without the digest, and of the arrays' names, dtypes, shapes and bytes."""
    told = sorted((name, text) for name, text in metadata.items() if name != "sha256")
    sha256 = hashlib.sha256(json.dumps([told, sorted(table_of(arrays).items())]).encode())
    for name in sorted(arrays):
        sha256.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return sha256.hexdigest()


def _expect_digest(metadata: Mapping[str, str], arrays: Tensors, source: str) -> None:
    expected, got = metadata.get("sha256"), digest(metadata, arrays)
    if got != expected:
        raise CheckpointError(
            f"{source}: corrupt: expected content of SHA-256 {shown(expected)}, found {got}; restore it from a copy"
        )


def _read_header(path: Path) -> tuple[dict[str, str], Table]:
    """The header of a safetensors file: metadata, and the table of its arrays. Raises as ``read_arrays``."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        table = {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
        metadata: dict[str, str] = file.metadata() or {}
    return metadata, {name: (shape, _DTYPES.get(dtype, dtype)) for name, (shape, dtype) in table.items()}


def read_arrays(path: Path) -> tuple[dict[str, str], HostArrays]:
    """Metadata and arrays of a safetensors file. Raises CheckpointError if it is missing, truncated or corrupt."""
    with _opened(path) as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file to read from; failures raise CheckpointError."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: expected a model file, found nothing; check the name") from error
    except OSError as error:
        got = "a folder that is no run; give the file in it" if path.is_dir() else describe(error)
        raise CheckpointError(f"{path}: expected a model file to read, got: {got}") from error
    except (AttributeError, TypeError) as error:  # NumPy has no bfloat16, and no float8
        raise CheckpointError(f"{path}: expected arrays that NumPy has a dtype for, got: {error}") from error
    except (SafetensorError, ValueError, KeyError) as error:
        got = _of_a_run(path) or _of_others(path) or f"one that is truncated or corrupt ({error})"
        raise CheckpointError(f"{path}: expected a whole safetensors file, got {got}") from error


def _is_run(path: Path) -> bool:
    is_checkpoint = path.parent.name == "checkpoints" and path.is_dir()
    return is_checkpoint or (path / "config.toml").is_file() or (path / "checkpoints").is_dir()


def _of_others(path: Path) -> str:
    """What a file is that is no safetensors file, and what npformer reads; "" if its first bytes do not tell."""
    with suppress(OSError), path.open("rb") as file:
        start = file.read(200)
        return next((f"{what}; {READS}" for begins, what in _OTHERS if re.match(begins, start, re.DOTALL)), "")
    return ""


def _of_a_run(path: Path) -> str:
    """How to read the run whose own file this is; "" if it is none."""
    run = next((folder for folder in path.parents if _is_run(folder)), None)
    if run is None or (path.suffix == ".safetensors" and path.name != ARRAYS):
        return ""
    return f"a file of a run; give its folder: npf.load({str(run)!r}), or {shell_words('npformer', 'decode', run)}"
