"""A model that computes something else than its configuration says is not saved: any class, setting, method, operation.

What is refused is named with its place, what npf.load would build, and what is there.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from npformer.backend import Pair, get_backend
from npformer.errors import CheckpointError
from npformer.layers import (
    FeedForward,
    LayerNorm,
    Local,
)
from npformer.layers.owner import Owner, walk
from npformer.models import Decoder, DecoderConfig, EncoderConfig, Transformer, TransformerConfig, build_model
from npformer.run import load, save
from tests.training.test_changed_models import Halved

SIZES = {"d_model": 4, "num_heads": 2, "d_ff": 4, "dropout": 0.1}
CONFIGS = {
    "encoder-decoder": TransformerConfig(5, 5, num_encoder_layers=1, num_decoder_layers=2, norm_order="pre", **SIZES),
    "local, rotary": DecoderConfig(5, attention="local", window=2, positions="rotary", num_layers=1, **SIZES),
    "relative, tied": EncoderConfig(5, positions="relative", tie_embeddings=True, num_layers=1, **SIZES),
    "batch norm": DecoderConfig(5, attention="linear", positions="learned", norm="batch", num_layers=1, **SIZES),
}


@pytest.fixture(params=CONFIGS)
def model(request, numpy64):
    """A model of each kind of part."""
    return build_model(CONFIGS[request.param], backend=numpy64)


def refused(model, path, text):
    """Save, which must fail with this text in the message and leave the file as it was."""
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(CheckpointError) as caught:
        save(model, path)
    assert str(caught.value).startswith("model: expected the parts and arrays that its configuration describes, as npf")
    assert str(caught.value).endswith("put parts of npformer in their place; nothing was written")
    assert text in str(caught.value)
    assert (path.read_bytes() if path.exists() else None) == before


def other(value):
    """Another value of the same type."""
    return {bool: lambda: not value, str: lambda: f"{value}s"}.get(type(value), lambda: value + 1)()


def test_any_setting_of_any_part_counts(model, path):
    save(model, path)
    tried = set()
    for part in [part for part in walk(model) if isinstance(part, Owner) and not hasattr(part, "data")]:
        for name, value in list(vars(part).items()):
            if type(value) in (bool, int, float, str) and name != "_version":
                object.__setattr__(part, name, other(value))  # the parts of Local are frozen
                vars(part)["_version"] = part._version + 10**9  # as any setting of an attribute does
                refused(model, path, f"{name}: expected {value!r}, got {other(value)!r}")
                object.__setattr__(part, name, value)
                tried.add(name)
    assert tried >= {"dropout", "rate", "num_heads", "activation", "norm_order", "scale", "eps", "recompute"} - (
        {"eps"} if isinstance(model.config, DecoderConfig) and model.config.norm == "batch" else set()
    )
    save(model, path)


def halved(part, *inputs, **options):
    y, cache = type(part).forward(part, *inputs, **options)
    return y / 2, cache


class Mine(FeedForward):
    """npformer's, by another name."""


def with_another_relu(backend):
    def forward(x):
        y, cache = backend.ops.relu.forward(x)
        return y * y, cache

    return replace(backend, ops=replace(backend.ops, relu=Pair(forward, backend.ops.relu.backward)))


def with_other_layers(model, names):
    model.decoder.layers = tuple(model.decoder.layers[i] for i in names)


#: What is done to a Transformer, and what is said of it.
CHANGES = {
    "class set on the part": (
        lambda model: setattr(model.encoder.layers[0].feed_forward, "__class__", Halved),
        "encoder.layers.0.feed_forward: expected FeedForward, got Halved with forward of its own",
    ),
    "mechanism of npformer": (
        lambda model: setattr(model.encoder.layers[0].self_attention, "mechanism", Local(window=1)),
        "encoder.layers.0.self_attention.mechanism: expected ScaledDotProduct, got Local",
    ),
    "method of a part": (
        lambda model: setattr(model.generator, "forward", partial(halved, model.generator)),
        "generator.forward: expected the method of Linear, got another that was set on this part",
    ),
    "method of the model": (
        lambda model: setattr(model, "__class__", type("Odd", (Transformer,), {"_decode": lambda *_: None})),
        "the model: expected Transformer, got Odd with _decode of its own",
    ),
    "operation": (
        lambda model: setattr(model.encoder.layers[0].feed_forward, "backend", with_another_relu(model.backend)),
        "encoder.layers.0.feed_forward.backend.ops.relu: expected npformer's operation, got another",
    ),
    "a part that is gone": (
        lambda model: setattr(model, "src_positions", None), "src_positions: expected SinusoidalPositions, got None",
    ),
    "an attribute that is gone": (
        lambda model: delattr(model.encoder.layers[0].norm1, "eps"),
        "encoder.layers.0.norm1.eps: expected 1e-05, got nothing",
    ),
    "fewer layers": (lambda model: with_other_layers(model, [0]), "decoder.layers.1."),
    "one layer more": (
        lambda model: setattr(model.decoder, "layers", (*model.decoder.layers, model.dropout)),
        "decoder.layers: expected 2 parts, got 3 parts",
    ),
    "an array for a number": (
        lambda model: setattr(model.dropout, "rate", np.full(2, 0.1)),
        "dropout.rate: expected 0.1, got array([0.1, 0.1])",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_load_would_build_otherwise_is_not_saved(change, path, numpy64):
    model = build_model(CONFIGS["encoder-decoder"], backend=numpy64)
    save(model, path)
    do, text = CHANGES[change]
    do(model)
    refused(model, path, text)


def test_a_method_set_on_a_class_before_the_first_save_counts_too(path, numpy64, monkeypatch):
    model = build_model(CONFIGS["encoder-decoder"], backend=numpy64)
    monkeypatch.setattr(LayerNorm, "forward", lambda self, x: (x, None))
    refused(model, path, "encoder.layers.0.norm1: expected LayerNorm, got LayerNorm with forward of its own")
    monkeypatch.undo()
    save(model, path)


class Noted(Decoder):
    """A model with a note, a method and a constructor of its own, none of which computes anything else."""

    static = True

    def __init__(self, config, note, **options):
        super().__init__(config, **options)
        self.note = note

    def said(self):
        return self.note


def test_what_computes_the_same_is_saved(path, numpy64):
    """Subclasses that redefine nothing, layers in another order or container, notes, and numbers of another type."""
    config = DecoderConfig(5, num_layers=2, **SIZES)
    model = Noted(config, "mine", backend=numpy64)
    model.decoder.layers = [*reversed(model.decoder.layers)]
    model.decoder.layers[0].feed_forward.__class__ = Mine
    model.dropout.note = {"seen": 3}
    model.dropout.rate = np.float64(0.1)
    model.decoder.layers[1].self_attention.num_heads = np.int64(2)
    model.config = replace(config, pad_id=3)
    save(model, path)
    again, tokens = load(path, backend=numpy64), [[1, 4, 2]]
    assert again.config.pad_id == 3
    assert np.array_equal(again(tokens), model(tokens))


@pytest.mark.parametrize("kernels", ["plain", "numpy", "numba"])
def test_the_kernels_of_a_backend_are_no_difference(kernels, path):
    if kernels == "numba":
        pytest.importorskip("numba")
    for config in CONFIGS.values():
        save(build_model(config, backend=get_backend("numpy", kernels=kernels)), path)
