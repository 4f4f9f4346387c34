"""A model comes back from its file to the bit, and a damaged file is refused with words."""

import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.errors import CheckpointError, ConfigError
from npformer.layers import Layer, Parameter
from npformer.models import Decoder, DecoderConfig, EncoderConfig, TransformerConfig, build_model
from npformer.run import load, save
from npformer.run.checkpoint import save_checkpoint
from npformer.run.model_arrays import model_arrays, set_arrays
from npformer.run.model_file import READS
from tests.run.runs import failing

SIZES = {"d_model": 4, "num_heads": 2, "d_ff": 4, "dropout": 0.1}
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}


def build(backend, seed=1):
    return shaken(build_model(TransformerConfig(5, 5, **LAYERS, **SIZES), backend=backend, seed=seed))


@pytest.fixture
def saved(tmp_path, numpy64):
    path = tmp_path / "model.safetensors"
    save(build(numpy64), path)
    return path


CONFIGS = [
    TransformerConfig(5, 5, **LAYERS, **SIZES),
    TransformerConfig(5, 5, tie_embeddings=True, **LAYERS, **SIZES),
    TransformerConfig(5, 5, positions="learned", norm_order="pre", **LAYERS, **SIZES | {"dropout": 0.25}),
    EncoderConfig(7, head="sequence", num_classes=4, num_layers=2, **SIZES),
    EncoderConfig(7, head="masked", tie_embeddings=True, positions="relative", num_layers=2, **SIZES),
    DecoderConfig(7, attention="local", window=2, positions="rotary", num_layers=2, **SIZES),
    EncoderConfig(7, head="tokens", num_classes=4, norm="batch", num_layers=2, **SIZES),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_model_comes_back_to_the_bit(config, dtype, path):
    backend = get_backend("numpy", dtype, kernels="plain")
    model = shaken(build_model(config, backend=backend, seed=1))
    for _, buffer in model.named_buffers():
        buffer.data[...] = np.random.default_rng(0).uniform(1, 2, buffer.data.shape)
    save(model, path)
    again = load(path, backend=backend)
    assert (type(again), again.config) == (type(model), config)
    values, loaded = model_arrays(model), model_arrays(again)
    assert list(values) == list(loaded)
    for name, value in values.items():
        assert loaded[name].dtype == dtype
        assert loaded[name].tobytes() == value.tobytes(), name
    assert ("encoder.layers.0.norm1.running_mean" in values) == (config.norm == "batch")
    inputs = [[[3, 4, 2]], [[1, 3]]][: len(config.batch) - 1]
    assert np.array_equal(model(*inputs), again(*inputs))


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


def zipped(*names):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for name in names:
            file.writestr(name, b"")
    return written.getvalue()


def by_numpy(write, *arrays):
    written = io.BytesIO()
    write(written, *arrays)
    return written.getvalue()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (zipped("archive/data.pkl", "archive/version"), "a file of torch.save"),
        (pickle.dumps({"weight": [1.0]}, protocol=2), "a pickle, such as an old file of torch.save"),
        (by_numpy(np.savez, np.ones(2)), "a file of np.savez"),
        (by_numpy(np.save, np.ones(2)), "a file of np.save"),
        (zipped("word/document.xml"), "a ZIP archive"),
        (b"GGUF\3\0\0\0" + bytes(40), "a GGUF file of llama.cpp"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
        (b"\n<!DOCTYPE html><html>" + b" " * 40, "a web page in place of a file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS, for which git lfs pull fetches the"),
    ],
)  # fmt: skip
def test_files_of_others_are_told_as_what_they_are(content, what, tmp_path, numpy64):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "model", backend=numpy64)
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'model'}: expected a whole safetensors file, got {what}")
    assert told.endswith(READS)


def test_the_arrays_of_a_checkpoint_are_told_with_the_way_to_their_model(tmp_path, numpy64, saved):
    place = save_checkpoint(tmp_path / "lm-001" / "checkpoints", 1, {"parameters.x": np.ones(2)}, {}, None)
    with pytest.raises(
        CheckpointError, match=re.escape(f"got a file of a run; give its folder: npf.load({str(place)!r})")
    ):
        load(place / "arrays.safetensors", backend=numpy64)


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


def test_a_place_that_cannot_be_written_is_named(tmp_path, numpy64):
    for path in (tmp_path / "no" / "folder" / "model", tmp_path):
        text = rf"^{re.escape(str(path))}: expected a place to write [\d,]+ bytes, got: "
        with pytest.raises(CheckpointError, match=text):
            save(build(numpy64), path)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(saved, numpy64, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", failing())
    with pytest.raises(CheckpointError, match=r"got: the disk is full$"):
        save(build(numpy64, seed=2), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_configuration_of_numpys_numbers_is_saved(path, numpy64):
    """As of a vocabulary's size that was counted: data.max() + 1."""
    changes = {"dropout": np.float32(0.5), "tie_embeddings": np.bool_(True), "num_layers": 2}
    config = DecoderConfig(np.int64(5), **SIZES | changes)
    save(Decoder(config, backend=numpy64), path)
    assert load(path, backend=numpy64).config == config
    assert [type(each) for each in (config.vocab_size, config.dropout, config.tie_embeddings)] == [int, float, bool]


def test_a_subclass_is_saved_as_the_model_it_is_made_of(path, numpy64):
    class Mine(Decoder):
        pass

    model = Mine(DecoderConfig(5, num_layers=2, **SIZES), backend=numpy64)
    save(model, path)
    loaded = load(path, backend=numpy64)
    assert type(loaded) is Decoder
    assert np.array_equal(loaded.arena.values, model.arena.values)
    with pytest.raises(CheckpointError, match="model: expected one of Transformer, Encoder, Decoder, got LayerNorm"):
        save(model.decoder.layers[0].norm1, path)


def test_of_two_arrays_of_one_name_none_is_lost(numpy64):
    class Twice(Layer):
        def __init__(self):
            super().__init__(numpy64)
            self.weights = [Parameter("w", np.ones(2)) for _ in range(2)]

    with pytest.raises(ConfigError, match="w: expected a name for each parameter"):
        model_arrays(Twice())
