"""Recorded decoding: a token is one launch, and texts are those of NumPy, of every length, row by row."""

import numpy as np
import pytest

import npformer as npf
from npformer.backend import get_backend
from npformer.backend.select import cupy_backend
from npformer.check.cases.case import shaken
from npformer.decoding import beam_search, greedy, sample
from npformer.engine.cupy import cupy_runtime
from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig
from tests.engine.cupy import emulated

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 80, "dropout": 0.0, "init": "xavier"}
HOST = get_backend("numpy", "float64", kernels="plain")


@pytest.fixture
def cupy(runtimes, monkeypatch):
    monkeypatch.setattr(cupy_runtime, "announce", lambda: None)
    return emulated.installed(monkeypatch)


@pytest.fixture
def machine(cupy):
    return cupy.machine


def transformer(backend, seed=1, **changes):
    options = {"num_encoder_layers": 1, "num_decoder_layers": 2} | SIZES | changes
    return shaken(Transformer(TransformerConfig(9, 9, **options), backend=backend, seed=seed))


def decoder(backend, seed=1, **changes):
    return shaken(Decoder(DecoderConfig(9, **({"num_layers": 2} | SIZES | changes)), backend=backend, seed=seed))


def sources(rows, length=7, seed=0):
    """Of unequal length."""
    rng = np.random.default_rng(seed)
    src = rng.integers(3, 9, (rows, length))
    src[np.arange(length) >= rng.integers(1, length + 1, rows)[:, None]] = 0
    return src


def test_first(machine):
    on_gpu = cupy_backend("float64")
    for build in (transformer, decoder):
        for rows in (1, 5, 32):
            src = sources(rows)
            a, b = build(HOST), build(on_gpu)
            for max_len in (9, 20):
                np.testing.assert_array_equal(greedy(b, src, max_len), greedy(a, src, max_len))
                print(build.__name__, rows, max_len, machine.records, machine.launches)
