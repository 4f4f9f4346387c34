"""Converts a model's weights to PyTorch's names and layouts, and back; PyTorch is not needed.

The names are those of a module that holds a ``torch.nn.Transformer``'s ``encoder`` and ``decoder``
beside ``src_embed``, ``tgt_embed`` (``torch.nn.Embedding``) and ``generator`` (``torch.nn.Linear``):

    PyTorch                                            here
    src_embed.weight                    (V, C)         src_embedding.weight
    src_positions.weight                (P, C)         src_positions.weight, if positions are learned
    encoder.layers.0.self_attn.in_proj_weight (3C, C)  encoder.layers.0.self_attention.qkv.weight  ᵀ
    encoder.layers.0.self_attn.out_proj.weight (C, C)  encoder.layers.0.self_attention.output.weight  ᵀ
    decoder.layers.0.multihead_attn.…                  decoder.layers.0.cross_attention.…
    encoder.layers.0.linear1.weight     (F, C)         encoder.layers.0.feed_forward.up.weight  ᵀ
    encoder.layers.0.linear2.weight     (C, F)         encoder.layers.0.feed_forward.down.weight  ᵀ
    encoder.layers.0.norm1.weight, bias (C,)           encoder.layers.0.norm1.gamma, beta
    … and of a BatchNorm: running_mean, running_var    running_mean, running_variance
    encoder.norm.weight, bias           (C,)           encoder.norm.gamma, beta, if there is a final norm
    generator.weight                    (V, C)         generator.weight  ᵀ

ᵀ: PyTorch keeps a linear map as (out, in), for y = x Wᵀ; here it is (in, out), for y = x W. The table
of a tied model is (V, C) on both sides and has all three of its names.

Only arrays are converted. Not included are sinusoidal positions, the scale √C of the embeddings, and the
masks, where True means hidden in PyTorch and visible here.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save as to_bytes

from npformer.errors import CheckpointError
from npformer.layers.parameter import Buffer, Parameter
from npformer.models import Transformer
from npformer.run.model_file import read_arrays, write_safetensors
from npformer.typing import HostArray, HostArrays, Shape

_WORDS = (
    ("src_embedding.", "src_embed."), ("tgt_embedding.", "tgt_embed."),
    (".self_attention.", ".self_attn."), (".cross_attention.", ".multihead_attn."),
    (".qkv.", ".in_proj_"), (".output.", ".out_proj."),
    (".feed_forward.up.", ".linear1."), (".feed_forward.down.", ".linear2."),
    (".gamma", ".weight"), (".beta", ".bias"), (".running_variance", ".running_var"),
)  # fmt: skip
_LINEAR = (".qkv.weight", ".output.weight", ".up.weight", ".down.weight", "generator.weight")
_COUNT = ".num_batches_tracked"  # PyTorch's BatchNorm has this counter; npformer's does not need it
_FINAL_NORMS = {"encoder.norm.weight", "decoder.norm.weight"}


class _Entry(NamedTuple):
    """One array of the state dict, and its parameter or buffer."""

    name: str  # PyTorch's
    parameter: Parameter | Buffer
    transposed: bool
    same_as: str  # the first of PyTorch's names for this parameter: a different one if it is tied

    @property
    def shape(self) -> tuple[int, ...]:
        """PyTorch's shape."""
        shape = tuple(self.parameter.data.shape)
        return shape[::-1] if self.transposed else shape


def to_state_dict(model: Transformer, grads: bool = False) -> HostArrays:
    """PyTorch's name -> a contiguous copy, in PyTorch's layout, of the parameter or buffer; grads: of its gradient.

    In PyTorch: ``module.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})``.
    """
    state: HostArrays = {}
    for entry in _entries(model):
        array = getattr(entry.parameter, "grad", None) if grads else entry.parameter.data
        if array is None:  # a buffer's gradient
            continue
        host = model.backend.host(array)
        state[entry.name] = np.array(host.T if entry.transposed else host, order="C")
    return state


def load_state_dict(model: Transformer, mapping: Mapping[str, Any]) -> None:
    """Copy arrays under PyTorch's names (``module.state_dict()``, or NumPy arrays) into parameters and buffers.

    Values: floating-point arrays, or anything that ``np.asarray`` converts to one, converted to the model's dtype.
    An optimiser's moments do not change: make a new optimiser. Raises CheckpointError, which lists every
    missing, unknown and unfit name; then nothing has changed.
    """
    if not isinstance(mapping, Mapping):
        raise CheckpointError(
            f"mapping: expected a state_dict(), got {mapping!r:.80}; "
            "npf.interop.torch.load_from_file(model, path) reads a safetensors file"
        )
    _load(model, mapping, "state dict")


def save_state_dict(model: Transformer, path: str | os.PathLike[str], grads: bool = False) -> None:
    """Write ``to_state_dict`` to path, a file for ``safetensors.torch.load_file``, replacing it atomically.

    Raises CheckpointError if it cannot be written; an existing file is then unchanged.
    """
    metadata = {"format": "pt", "content": "gradients" if grads else "parameters"}
    write_safetensors(path, to_bytes(dict(to_state_dict(model, grads)), metadata))


def load_from_file(model: Transformer, path: str | os.PathLike[str]) -> None:
    """``load_state_dict`` from a safetensors file, written here or by ``safetensors.torch.save_file``.

    Raises CheckpointError if the file cannot be read or does not fit; then nothing has changed.
    """
    metadata, arrays = read_arrays(Path(path))
    if metadata.get("content") == "gradients":
        raise CheckpointError(f"{path}: expected parameters, got gradients, saved with grads=True; save without it")
    _load(model, arrays, str(path))


def _entries(model: Transformer) -> Iterator[_Entry]:
    for name, parameter, aliases in model.owned_parameters():
        for alias in (name, *aliases):
            yield _Entry(_torch_name(alias), parameter, name.endswith(_LINEAR), _torch_name(name))
    for name, buffer in model.named_buffers():
        yield _Entry(_torch_name(name), buffer, False, _torch_name(name))


def _torch_name(name: str) -> str:
    for ours, theirs in _WORDS:
        name = name.replace(ours, theirs)
    return name


def _load(model: Transformer, mapping: Mapping[str, Any], source: str) -> None:
    entries = {entry.name: entry for entry in _entries(model)}
    arrays: HostArrays = {}
    unfit = []
    for name, entry in entries.items():
        if name not in mapping:
            continue
        try:
            arrays[name] = _fitting(mapping[name], entry.shape, model.backend.dtype)
            _expect_tied(arrays[name], arrays.get(entry.same_as), entry.same_as)
        except (ValueError, FloatingPointError) as error:
            unfit.append(f"{name}: {error}")
    missing = [name for name in entries if name not in mapping]
    foreign = [str(name) for name in mapping if name not in entries and not str(name).endswith(_COUNT)]
    if missing or foreign or unfit:
        raise CheckpointError(_complaint(source, missing, foreign, unfit))
    for name, entry in entries.items():
        array = arrays[name].T if entry.transposed else arrays[name]
        entry.parameter.data[...] = model.backend.array(array)


def _fitting(value: Any, shape: Shape, dtype: str) -> HostArray:
    """value as a host array of this shape and dtype. Raises ValueError or FloatingPointError with the reason."""
    try:
        array: HostArray = np.asarray(value)
    except Exception as error:  # each array library refuses in its own way (a tensor on a GPU, or with a graph)
        raise ValueError(f"expected what np.asarray takes, got {type(value).__name__}: {error}") from error
    if array.shape != shape:
        hint = " (its transpose)" if array.shape == shape[::-1] else ""
        raise ValueError(f"expected {shape}, got {array.shape}{hint}")
    if array.dtype.kind not in "fc" or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(f"expected floating-point numbers for a {dtype} model, got {array.dtype}")
    with np.errstate(over="raise"):
        return array.astype(dtype)


def _expect_tied(array: HostArray, first: HostArray | None, first_name: str) -> None:
    if first is not None and not np.array_equal(array, first, equal_nan=True):
        raise ValueError(
            f"expected the numbers of {first_name}, since the model ties them, got others; "
            "use TransformerConfig(tie_embeddings=False) for weights that differ"
        )


def _complaint(source: str, missing: list[str], foreign: list[str], unfit: list[str]) -> str:
    """All errors of a mapping, as a text of several lines."""
    lines = [f"{source}: expected exactly the model's arrays under PyTorch's names; nothing was changed"]
    lines += _paragraph("missing", ", ".join(missing), len(missing))
    lines += _paragraph("not part of the model", ", ".join(foreign), len(foreign))
    lines += _paragraph("unfit", "; ".join(unfit), len(unfit))
    if set(foreign) >= _FINAL_NORMS:
        lines.append("it has final norms, the model has none: make the model with TransformerConfig(final_norm=True)")
    if set(missing) >= _FINAL_NORMS:
        lines.append("it has no final norms, the model has: make the model with TransformerConfig(final_norm=False)")
    return "\n".join(lines)


def _paragraph(title: str, text: str, count: int) -> list[str]:
    wrapper = textwrap.TextWrapper(100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [wrapper.fill(f"{title} ({count}): {text}")] if count else []
