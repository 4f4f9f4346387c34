"""The backends and initial models of contenders, and a file of their weights for processes without npformer."""

import os
from importlib import import_module

import numpy as np

import npformer as npf
from benchmarks.machine import cores
from npformer.interop.torch import save_state_dict

NO_END = -1  # not a token: every contender decodes to the full length
NEVER = -1e4  # with this bias a token is never the likeliest


def backend(device, kernels, precision="float32", threads=None):
    """npformer's backend on device in float32, with these kernels and this precision of products."""
    options = {} if threads is None else {"threads": threads}
    return npf.get_backend(device, dtype="float32", kernels=kernels, precision=precision, **options)


def about(of):
    """The backend's description for the report."""
    threads = "1" if of.name == "cupy" else f"up to {of.threads} over a batch or {cores()} in a product"
    library = import_module("npformer.engine.numba.intel").product_library() if of.kernels == "numba" else ""
    return {"backend": f"{of}, products by {library}" if library else str(of), "threads": threads}


def take_core(rank):
    """Let this process use one of the cores that it may, as ``--processes`` does."""
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {available[rank % len(available)]})


def training_model(preset, dropout, backend):
    """The model that training starts from."""
    return npf.Transformer(preset.config(dropout), backend=backend, seed=0)


def decoding_model(preset, backend):
    """A model that never predicts the pad token, so that its output needs no mask."""
    model = training_model(preset, 0.0, backend)
    model.generator.bias.data[model.config.pad_id] = NEVER
    return model


def sources(preset, batch):
    """Source sentences (B, S) without padding."""
    return np.random.default_rng(1).integers(1, preset.vocab_size, (batch, preset.length))


def save_weights(preset, folder, decoding=False):
    """Write that model's weights, under PyTorch's names, into folder. Returns the path."""
    path, backend = folder / "weights.safetensors", npf.get_backend("numpy", kernels="plain")
    save_state_dict(decoding_model(preset, backend) if decoding else training_model(preset, 0.0, backend), path)
    return str(path)
