"""What a model file claims is compared with what it holds before anything is made of it; what could not come back is
not written."""

import json
import re
import struct
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file

from npformer.backend import get_backend
from npformer.errors import CheckpointError, DeviceMemoryError
from npformer.models import Decoder, DecoderConfig
from npformer.run import load, model_file, save

SIZES = {"d_model": 4, "num_heads": 2, "num_layers": 1, "d_ff": 4}


def build(backend, **changes):
    return Decoder(DecoderConfig(5, **(SIZES | changes)), backend=backend, seed=1)


def write(path, header, numbers):
    path.write_bytes(struct.pack("<Q", len(header)) + header + numbers)


def claiming(path, **changes):
    """A file of one number that says it is a model; None leaves an entry of its metadata out."""
    metadata = {"format": model_file.FORMAT, "model": "Decoder", "config": json.dumps({"vocab_size": 5})} | changes
    save_file({"x": np.zeros(1, "float32")}, path, {name: text for name, text in metadata.items() if text is not None})
    return path


@pytest.mark.parametrize(
    "changes",
    [{"d_model": 8192}, {"num_encoder_layers": 10_000}, {"positions": "learned", "max_seq_len": 2**31 - 1},
     {"d_model": 10**30}],
)  # fmt: skip
def test_a_large_claim_costs_nothing(changes, path, numpy32, monkeypatch):
    """No model is built, and no array of more numbers than the file's is made on the way."""
    monkeypatch.setattr(model_file, "build_model", lambda *_, **__: pytest.fail("a model was built"))
    config = json.dumps({"src_vocab_size": 5, "tgt_vocab_size": 5} | changes)
    with pytest.raises(CheckpointError, match="model: expected"):
        load(claiming(path, model="Transformer", config=config), backend=numpy32)


OF_A_DECODER = "expected a configuration of a Decoder, got: "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"config": config}, OF_A_DECODER + problem) for config, problem in (
            ('{"vocab_size": 5, "d_model": 4, "d_model": 8}', "expected each option once, got 'vocab_size', "),
            ('{"vocab_size": ' + "[" * 100_000, "maximum recursion depth exceeded"),
            ('{"vocab_size": ' + "9" * 5000 + "}", "Exceeds the limit"),
            ('{"vocab_size": NaN}', "vocab_size: expected a whole number, got nan"),
            ('{"vocab_size": 5, "dropout": NaN}', "dropout: expected a rate with 0 <= rate < 1"),
            ('{"vocab_size": 5, "heads": 2}', "option 'heads' is unknown; did you mean"),
            ('{"vocab_size": 5, "num_heads": 7}', "num_heads: expected a divisor of d_model"),
            ('{"d_model": 4}', ""),
            ("[1]", "expected options by name, got [1]"),
            ("{", "Expecting property name"),
            (None, "'config'"),
        )),
        ({"model": "Mamba"}, "expected a model of Transformer, Encoder, Decoder, got 'Mamba'; use the version of npf"),
        ({"format": "npformer-model-1", "model": None}, "expected a model saved by npf.save, marked npformer-model-2, "
         "got a file marked 'npformer-model-1'; use the version that wrote it"),
        ({"format": "pt"}, "expected a model saved by npf.save, marked npformer-model-2, got a file marked 'pt', "
         f"so of another library; {model_file.READS}"),
        ({"format": None}, "expected a model saved by npf.save, marked npformer-model-2, got a file without its mark, "
         "so of another library; npf.load reads what npf.save wrote"),
    ],
)  # fmt: skip
def test_metadata_of_other_things_are_refused(changes, message, path, numpy32):
    with pytest.raises(CheckpointError, match=re.escape(f"model: {message}")):
        load(claiming(path, **changes), backend=numpy32)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"x": ("BF16", [8], [0, 16])}, "does not fit the model"),
        ({"x": ("F32", [0, 2**40, 2**40], [0, 0])}, "truncated or corrupt"),
        ({"x": ("F32", [4], [0, 16]), "y": ("F32", [4], [0, 16])}, "truncated or corrupt"),
        ({"x": ("F32", [-4], [0, 16])}, "truncated or corrupt"),
        ({"x": ("F32", [1] * 80 + [4], [0, 16])}, "does not fit the model"),
    ],
)
def test_a_header_that_lies_is_refused(header, message, path, numpy32):
    config = json.dumps({"vocab_size": 5})
    entries = {
        name: dict(zip(("dtype", "shape", "data_offsets"), entry, strict=True)) for name, entry in header.items()
    }
    told = {"__metadata__": {"format": model_file.FORMAT, "model": "Decoder", "config": config}} | entries
    write(path, json.dumps(told).encode(), bytes(16))
    with pytest.raises(CheckpointError, match=message):
        load(path, backend=numpy32)


def test_every_change_of_content_is_told(path, tmp_path, numpy64):
    """A flipped bit of a number, another option, a name more in the metadata: the SHA-256 is over all of them."""
    save(build(numpy64), path)
    data = path.read_bytes()
    stop = 8 + int.from_bytes(data[:8], "little")
    for place in range(stop, len(data), 37):
        (tmp_path / "other").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(
            CheckpointError, match=r"other: corrupt: expected content of SHA-256 '[0-9a-f]{64}', found "
        ):
            load(tmp_path / "other", backend=numpy64)
    for old, new in (
        (b'dropout\\": 0.1', b'dropout\\": 0.2'),
        (b'"format"', b'"a":"b","format"'),
        (b'"sha256"', b'"sha255"'),
    ):
        header = data[8:stop].replace(old, new)
        assert header != data[8:stop]
        write(tmp_path / "other", header, data[stop:])
        with pytest.raises(CheckpointError, match=r"other: corrupt: expected content of SHA-256"):
            load(tmp_path / "other", backend=numpy64)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_diverged_model_is_told_and_taken_only_on_demand(number, path, numpy64):
    model = build(numpy64)
    save(model, path)
    before = path.read_bytes()
    model.decoder.layers[0].norm2.gamma.data[1] = number
    text = rf"expected finite weights, got {number} in decoder\.layers\.0\.norm2\.gamma: the model has diverged; go"
    with pytest.raises(CheckpointError, match=rf"^model: {text}.*expect_finite=False; nothing was written$"):
        save(model, path)
    assert path.read_bytes() == before
    save(model, path, expect_finite=False)
    with pytest.raises(CheckpointError, match=rf"model: {text}"):
        load(path, backend=numpy64)
    loaded = load(path, backend=numpy64, expect_finite=False)
    assert np.array_equal(loaded.arena.values, model.arena.values, equal_nan=True)


def test_complex_numbers_are_for_checks(path):
    model = build(get_backend("numpy", "complex128"))
    with pytest.raises(CheckpointError, match=r"expected numbers of float32 or float64 to save, got complex128, which"):
        save(model, path)


def test_a_model_too_large_for_the_memory_is_told(path, numpy64, monkeypatch):
    save(build(numpy64), path)
    monkeypatch.setattr(model_file, "build_model", Mock(side_effect=MemoryError("no room for 8 EiB")))
    with pytest.raises(
        DeviceMemoryError, match=r"model: expected memory for a model of 181 numbers, got: no room for 8"
    ):
        load(path, backend=numpy64)
