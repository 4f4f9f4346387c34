"""A model's file carries its tokenizer, and npf.load takes a run's folder, too."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest

import npformer as npf
from npformer.data import Characters, MarkedWords, SpelledWords, Tokenizer, WordPiece, Words
from npformer.errors import CheckpointError, ConfigError, OutputError
from npformer.models import DecoderConfig, EncoderConfig, build_model
from npformer.run import RunDirectory, load, save
from npformer.run.assemble import assemble, write_run
from npformer.run.checkpoint import list_checkpoints
from npformer.run.model_arrays import model_arrays
from npformer.run.model_file import FORMAT, digest, load_trained
from npformer.run.model_file import to_bytes as safetensors_bytes
from tests.run.runs import Told, small_sections

TEXT = "der Hund, der bellt; die Katze\nmiaut. der Hund"
MADE = {
    "Characters": Characters.learn(TEXT),
    "Words": Words.learn(TEXT),
    "MarkedWords": MarkedWords.learn(TEXT),
    "SpelledWords": SpelledWords.learn(TEXT, 100),
    "WordPiece": WordPiece.learn(TEXT, 60),
}
SIZES = {"d_model": 4, "num_heads": 2, "d_ff": 4, "num_layers": 1}


def decoder(tokenizer, backend):
    return build_model(DecoderConfig(len(tokenizer.vocabulary), **SIZES), backend=backend)


@pytest.mark.parametrize("kind", MADE)
def test_every_tokenizer_comes_back(kind, path, numpy32):
    tokenizer = MADE[kind]
    model = decoder(tokenizer, numpy32)
    assert model.tokenizer is None
    save(model, path, tokenizer=tokenizer)
    again = load(path, backend=numpy32)
    assert type(again.tokenizer) is type(tokenizer)
    assert again.tokenizer.vocabulary == tokenizer.vocabulary
    assert again.tokenizer.encode(TEXT) == tokenizer.encode(TEXT)
    save(again, path)
    assert load(path, backend=numpy32).tokenizer.vocabulary == tokenizer.vocabulary, "a loaded model keeps it"
    assert load_trained(path, "numpy").kind == "causal"


def test_classes_go_along(path, numpy32):
    tokenizer = MADE["Characters"]
    config = EncoderConfig(len(tokenizer.vocabulary), head="sequence", num_classes=3, **SIZES)
    model = build_model(config, backend=numpy32)
    save(model, path, tokenizer=tokenizer, classes=["[PAD]", "de", "fr"])
    trained = load_trained(path, "numpy")
    assert (trained.kind, trained.classes) == ("classify", ("[PAD]", "de", "fr"))
    with pytest.raises(
        CheckpointError, match=r"^classes: expected 3 names, \[PAD\] first.*got 0; nothing was written$"
    ):
        save(model, path, tokenizer=tokenizer)


class Own(Characters):
    pass


@pytest.mark.parametrize(
    ("tokenizer", "problem"),
    [
        (Characters.learn("ab"), r"tokenizer: expected a vocabulary of \d+ pieces, as the model has, got 9"),
        (
            Own(MADE["Characters"].vocabulary),
            "tokenizer: expected one of Characters, MarkedWords, .*, got Own; leave it",
        ),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_not_saved(tokenizer, problem, path, numpy32):
    with pytest.raises(CheckpointError, match=f"^{problem}.*; nothing was written$"):
        save(decoder(MADE["Characters"], numpy32), path, tokenizer=tokenizer)
    assert not path.exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '["Own", "[PAD]"]', '["Words"]', '["Words", 3]', '["Words", "[PAD]"]', "[" * 99_999]
)
def test_a_forged_tokenizer_is_refused(text, path, numpy32):
    model = decoder(MADE["Words"], numpy32)
    save(model, path)
    metadata = {"format": FORMAT, "model": "Decoder", "tokenizer": text}
    metadata["config"] = json.dumps(asdict(model.config))
    arrays = {name: np.ascontiguousarray(array) for name, array in model_arrays(model).items()}
    path.write_bytes(safetensors_bytes(arrays, metadata | {"sha256": digest(metadata, arrays)}))
    with pytest.raises(
        CheckpointError, match=f"^{re.escape(str(path))}: expected a tokenizer that fits the model, got: "
    ):
        load(path, backend=numpy32)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with two checkpoints, of which the first is the best."""
    run = RunDirectory(tmp_path_factory.mktemp("runs"))
    parts = assemble(
        small_sections(training={"steps": 4, "batch_size": 4, "save_every": 2, "eval_every": 4, "eval_examples": 3})
    )
    write_run(run, parts)
    trainer = parts.trainer(run, Told())
    save_it, scores = trainer.save, iter([0.9, 0.1])
    trainer.save = lambda score=None: save_it(next(scores))
    trainer.train()
    return run


def test_load_takes_a_run(run):
    last, best = npf.load(run.path), npf.load(str(run.path), best=True)
    assert isinstance(last.tokenizer, Tokenizer)
    assert last.tokenizer.decode(last.tokenizer.encode("hund")) == "hund"
    paths = list_checkpoints(run.checkpoints)
    first, second = (npf.load(path) for path in paths)
    assert len(paths) == 2
    assert np.array_equal(best.arena.values, first.arena.values)
    assert np.array_equal(last.arena.values, second.arena.values)
    assert not np.array_equal(first.arena.values, second.arena.values)


def test_what_is_no_run(run, tmp_path, path, numpy32, numpy64):
    with pytest.raises(CheckpointError, match=r"got: a folder that is no run; give the file in it$"):
        npf.load(tmp_path)
    with pytest.raises(CheckpointError, match=r"step-00000077.*expected a checkpoint's step-00000077, found nothing"):
        load_trained(run.checkpoints / "step-00000077")
    with pytest.raises(OutputError, match="expected the folder of a run"):
        load_trained(tmp_path)
    with pytest.raises(CheckpointError, match=r"float64, got .* float32.*; is it of another configuration or dtype"):
        npf.load(run.path, backend=numpy64)
    save(decoder(MADE["Words"], numpy32), path)
    with pytest.raises(ConfigError, match=r"^best: expected the folder of a run"):
        npf.load(path, best=True)
