"""The kernels compiled before the first batch are those that training, or decoding, then calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
from npformer.backend import get_backend
from npformer.backend.numba import compiling, decode_step
from npformer.decoding import beam_search, greedy
from npformer.layers import FeedForward, RandomKey
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.optim import Adam
from npformer.runtime.compile_ahead import operations_of
from npformer.training import TrainStep

SIZES: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.2, "max_seq_len": 8}
STACKS: dict[str, Any] = {"num_encoder_layers": 1, "num_decoder_layers": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "post-LN": {},
    "pre-LN, GELU, learned": {"norm_order": "pre", "activation": "gelu", "positions": "learned"},
    "tied, no dropout": {"tie_embeddings": True, "dropout": 0.0},
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "linear": {"attention": "linear"},
    "local": {"attention": "local", "window": 2},
    "BatchNorm": {"norm": "batch"},
}
#: Only where a step is recorded, which some layers do not allow.
RECORDING = {"elementwise.add", "elementwise.compare"}


@pytest.fixture
def asked(monkeypatch):
    """The names of kernels that somebody wanted to have ready."""
    names: set[str] = set()
    before = compiling.prepare

    def prepare(kernels, dtype: str):
        names.update(kernel.name for kernel in kernels)
        return before(kernels, dtype)

    monkeypatch.setattr(compiling, "prepare", prepare)
    return names


@pytest.fixture
def called(monkeypatch):
    """The names of kernels that were called."""
    names: set[str] = set()
    before = compiling.Kernel.__call__

    def call(kernel, *arguments):
        names.add(kernel.name)
        before(kernel, *arguments)

    monkeypatch.setattr(compiling.Kernel, "__call__", call)
    return names


def build(**changes) -> Transformer:
    backend = get_backend("numpy", "float64", kernels="numba", threads=2)
    return Transformer(TransformerConfig(9, 9, **SIZES | STACKS | changes), backend=backend)


def batch(*shape: int):
    return np.random.default_rng(0).integers(1, 9, size=shape)


@pytest.mark.parametrize("variant", VARIANTS)
def test_compile_ahead_covers_the_kernels_a_training_step_calls(variant, asked, called):
    model = build(**VARIANTS[variant])
    assert asked == set()
    step = TrainStep(model, Adam(model.arena))
    assert called == set()
    before = set(asked)
    for shape in ((1, 2), (6, 5), (6, 5), (6, 5)):  # the second time it is recorded
        step(*[batch(*shape)] * 3)
    assert called - RECORDING == before - RECORDING
    assert called <= before
    assert asked == before


@pytest.mark.parametrize("model", [
    Encoder(EncoderConfig(9, num_layers=1, **SIZES),
            backend=get_backend("numpy", kernels="numba", threads=1)),
    Decoder(DecoderConfig(9, num_layers=1, **SIZES), backend=get_backend("numpy", kernels="numba", threads=1)),
], ids=["Encoder", "Decoder"])  # fmt: skip
def test_so_do_models_of_one_sequence(model, asked, called):
    step = TrainStep(model, Adam(model.arena))
    before = set(asked)
    for shape in ((1, 2), (6, 5)):
        step(batch(*shape), batch(*shape))
    assert called == before - RECORDING


@pytest.mark.parametrize("variant", VARIANTS)
def test_compile_ahead_covers_the_kernels_a_decoder_calls(variant, asked, called, monkeypatch):
    monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    monkeypatch.setattr(decode_step.sharing.helper, "invite", lambda job, shared: job())
    model = build(**VARIANTS[variant])
    greedy(model, batch(1, 2), max_len=4)
    before = set(asked)
    greedy(model, batch(6, 5), max_len=4)
    assert asked == before
    assert called <= before
    assert before - called <= {"linear.few_rows"}  # which a decoder in one call leaves to its own steps


def test_a_decoder_alone_too(asked, called):
    model = Decoder(DecoderConfig(9, num_layers=1, **SIZES), backend=get_backend("numpy", kernels="numba"))
    greedy(model, batch(1, 2), max_len=4)
    before = set(asked)
    greedy(model, batch(6, 3), max_len=4)
    assert asked == before == called
    assert not any("backward" in name for name in called)


@pytest.mark.parametrize("variant", ["post-LN", "rotary"])
def test_so_does_a_beam_search(variant, asked, called):
    model = build(**VARIANTS[variant])
    beam_search(model, batch(1, 2), max_len=4, beam=2)
    before = set(asked)
    beam_search(model, batch(6, 5), max_len=4, beam=2)
    assert asked == before
    assert "beam_choice.choose_in_beams" in called
    assert called <= before


def test_it_is_asked_once_for_a_model(asked):
    model = build()
    for use in (lambda: TrainStep(model, Adam(model.arena)), lambda: greedy(model, batch(1, 2), max_len=2)):
        use()
        assert asked
        asked.clear()
        use()
        assert asked == set()


class Counting(FeedForward):
    """A layer from elsewhere, which notices that it is run."""

    runs = 0

    def forward(self, *inputs, **options):
        Counting.runs += 1
        return super().forward(*inputs, **options)


def test_a_layer_from_elsewhere_is_not_run_unasked(asked):
    model = build()
    model.encoder.layers[0].feed_forward = Counting(8, 12, backend=model.backend)
    model.arena = type(model.arena)(model.owned_parameters(), model.backend)
    TrainStep(model, Adam(model.arena))
    assert Counting.runs == 0
    assert asked == set()


def test_a_model_is_as_it_was(small_model):
    model = small_model(get_backend("numpy", "float64", kernels="numba"), norm="batch", dropout=0.5)
    model.arena.grads[...] = 7.0
    before = [np.array(x) for x in (model.arena.values, model.arena.grads, *(b.data for _, b in model.named_buffers()))]
    assert operations_of(model, RandomKey(seed=0, step=0)) >= {
        "embedding",
        "attention",
        "batch_norm",
        "dropout",
        "residual",
    }
    after = [model.arena.values, model.arena.grads, *(b.data for _, b in model.named_buffers())]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
    assert all(layer.backend is model.backend for layer in model.all_layers())


def test_a_vocabulary_of_pads_alone_has_operations_too():
    backend = get_backend("numpy", kernels="numba")
    model = Transformer(TransformerConfig(1, 1, **SIZES | STACKS), backend=backend)
    assert "embedding" in operations_of(model, None)
