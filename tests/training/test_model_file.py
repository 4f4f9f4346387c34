"""A model comes back from its file to the bit, and a damaged file is refused with words."""

import errno
import json
import os
import re

import numpy as np
import pytest

from npformer.errors import CheckpointError, ConfigError
from npformer.layers import Layer, Parameter
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Transformer, TransformerConfig
from npformer.proof.catalogue import shaken
from npformer.training import load, save
from npformer.training.model_arrays import model_arrays, set_arrays
from npformer.training.model_file import FORMAT

SIZES = {"d_model": 4, "num_heads": 2, "num_layers": 2, "d_ff": 4}


def build(backend, seed=1, **changes):
    options = {"d_model": 4, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 4}
    model = shaken(Transformer(TransformerConfig(5, 5, **(options | changes)), backend=backend, seed=seed))
    assert isinstance(model, Transformer)
    return model


@pytest.fixture
def saved(tmp_path, numpy64):
    path = tmp_path / "model.safetensors"
    save(build(numpy64), path)
    return path


@pytest.mark.parametrize(
    "changes", [{}, {"tie_embeddings": True}, {"positions": "learned", "norm_order": "pre", "dropout": 0.25}]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_model_comes_back_to_the_bit(changes, dtype, tmp_path, numpy32, numpy64):
    backend = numpy32 if dtype == "float32" else numpy64
    model = build(backend, **changes)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", backend=backend)
    assert again.config == model.config
    values, found = model_arrays(model), model_arrays(again)
    assert list(values) == list(found)
    for name, value in values.items():
        assert found[name].dtype == dtype
        assert found[name].tobytes() == value.tobytes(), name
    src = [[3, 4, 2]]
    assert np.array_equal(model(src, [[1, 3]]), again(src, [[1, 3]]))


def test_a_model_saved_on_a_device_is_loaded_on_the_host(tmp_path, strict64, numpy64):
    save(build(strict64), tmp_path / "model")
    found, expected = model_arrays(load(tmp_path / "model", backend=numpy64)), model_arrays(build(numpy64))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_every_truncation_is_refused(saved, numpy64):
    load(saved, backend=numpy64)
    text = f"{saved}: expected a whole safetensors file, got one that is truncated or corrupt ("
    for length in range(saved.stat().st_size - 1, -1, -1):
        os.truncate(saved, length)
        with pytest.raises(CheckpointError) as caught:
            load(saved, backend=numpy64)
        assert str(caught.value).startswith(text), length


def test_what_is_no_file_of_a_model_is_refused(tmp_path, numpy64):
    with pytest.raises(CheckpointError, match=r"nothing: expected a model file, found nothing; check the name$"):
        load(tmp_path / "nothing", backend=numpy64)
    with pytest.raises(CheckpointError, match=r": expected a "):
        load(tmp_path, backend=numpy64)
    (tmp_path / "text").write_text("not a model, but long enough to hold a header")
    with pytest.raises(CheckpointError, match=r"text: expected a whole safetensors file"):
        load(tmp_path / "text", backend=numpy64)


def test_another_dtype_is_refused_not_rounded(saved, numpy32):
    with pytest.raises(CheckpointError, match=r"src_embedding.weight: expected \(5, 4\) float32, got \(5, 4\) float64"):
        load(saved, backend=numpy32)


def test_all_that_does_not_fit_is_listed_and_nothing_is_changed(numpy64):
    model, other = build(numpy64), model_arrays(build(numpy64, seed=2))
    before = model.arena.values.copy()
    arrays = dict(other)
    del arrays["encoder.layers.0.norm1.gamma"]
    arrays["generator.bias"] = np.ones(6)
    arrays["generator.gain"] = np.ones(3)
    text = (
        "FILE: does not fit the model: encoder.layers.0.norm1.gamma is missing; generator.gain is not part of the "
        "model; generator.bias: expected (5,) float64, got (6,) float64; is it of another configuration or dtype?"
    )
    with pytest.raises(CheckpointError, match=f"^{re.escape(text)}$"):
        set_arrays(model, arrays, "FILE")
    assert np.array_equal(model.arena.values, before)
    set_arrays(model, other, "FILE")
    assert not np.array_equal(model.arena.values, before)


def test_a_long_list_of_problems_is_cut(numpy64):
    model = build(numpy64)
    count = len(dict(model.named_parameters()))
    with pytest.raises(CheckpointError, match=rf"is missing; and {count - 5} more; is it of another"):
        set_arrays(model, {}, "FILE")


def test_a_place_that_cannot_be_written_is_named(tmp_path, numpy64):
    for path in (tmp_path / "no" / "folder" / "model", tmp_path):
        text = rf"^{re.escape(str(path))}: expected a place to write [\d,]+ bytes, got: "
        with pytest.raises(CheckpointError, match=text):
            save(build(numpy64), path)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(saved, numpy64, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"got: the disk is full$"):
        save(build(numpy64, seed=2), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_the_file_says_what_it_is(saved):
    data = saved.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"]["format"] == FORMAT
    assert json.loads(header["__metadata__"]["config"])["d_model"] == 4
    assert header["generator.bias"] == {"dtype": "F64", "shape": [5]} | {
        "data_offsets": header["generator.bias"]["data_offsets"]
    }


OTHERS = [
    (Encoder, EncoderConfig(vocab_size=7, head="sequence", num_classes=4, **SIZES)),
    (Encoder, EncoderConfig(vocab_size=7, head="masked", tie_embeddings=True, positions="relative", **SIZES)),
    (Decoder, DecoderConfig(vocab_size=7, attention="local", window=2, positions="rotary", **SIZES)),
    (Encoder, EncoderConfig(vocab_size=7, head="tokens", num_classes=4, norm="batch", **SIZES)),
]


@pytest.mark.parametrize(("kind", "config"), OTHERS)
def test_every_model_comes_back_as_what_it_was(kind, config, tmp_path, numpy64):
    model = shaken(kind(config, backend=numpy64, seed=1))
    for _, buffer in model.named_buffers():
        buffer.data[...] = np.random.default_rng(0).uniform(1, 2, buffer.data.shape)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", backend=numpy64)
    assert (type(again), again.config) == (kind, config)
    values, found = model_arrays(model), model_arrays(again)
    assert {name: value.tobytes() for name, value in values.items()} == {
        name: value.tobytes() for name, value in found.items()
    }
    assert ("encoder.layers.0.norm1.running_mean" in values) == (config.norm == "batch")
    assert np.array_equal(model([[3, 4, 2]]), again([[3, 4, 2]]))


def test_a_model_without_its_running_statistics_is_refused(numpy64):
    model = Encoder(OTHERS[3][1], backend=numpy64)
    arrays = model_arrays(model)
    del arrays["encoder.layers.0.norm1.running_mean"]
    with pytest.raises(CheckpointError, match=r"encoder.layers.0.norm1.running_mean is missing; is it of another"):
        set_arrays(model, arrays, "FILE")


def test_a_configuration_of_numpys_numbers_is_saved(tmp_path, numpy64):
    """As of a vocabulary's size that was counted: data.max() + 1."""
    config = DecoderConfig(np.int64(5), dropout=np.float32(0.5), tie_embeddings=np.bool_(True), **SIZES)
    save(Decoder(config, backend=numpy64), tmp_path / "model")
    assert load(tmp_path / "model", backend=numpy64).config == config
    assert [type(each) for each in (config.vocab_size, config.dropout, config.tie_embeddings)] == [int, float, bool]


def test_a_subclass_is_saved_as_the_model_it_is_made_of(tmp_path, numpy64):
    class Mine(Decoder):
        pass

    model = Mine(DecoderConfig(5, **SIZES), backend=numpy64)
    save(model, tmp_path / "model")
    found = load(tmp_path / "model", backend=numpy64)
    assert type(found) is Decoder
    assert np.array_equal(found.arena.values, model.arena.values)
    with pytest.raises(CheckpointError, match="model: expected one of Transformer, Encoder, Decoder, got LayerNorm"):
        save(model.decoder.layers[0].norm1, tmp_path / "model")


def test_of_two_arrays_of_one_name_none_is_lost(numpy64):
    class Twice(Layer):
        def __init__(self):
            super().__init__(numpy64)
            self.weights = [Parameter("w", np.ones(2)) for _ in range(2)]

    with pytest.raises(ConfigError, match="w: expected a name for each parameter"):
        model_arrays(Twice())


def test_a_file_needs_a_name(numpy64):
    with pytest.raises(CheckpointError, match=r"expected a place to write .* bytes, got: a file needs a name"):
        save(build(numpy64), "")
