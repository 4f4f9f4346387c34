"""The files that npformer reads, each with its reader and the errors that the reader documents."""

import io
import json
import random
import struct
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as to_bytes

import npformer as npf
from npformer.backend import get_backend
from npformer.data import SEQUENCE, Characters, PairsTask, Vocabulary, text_from_file
from npformer.errors import CheckpointError, ConfigError, DataError, NpformerError, OutputError, TokenError
from npformer.io.atomic_files import seal, unseal
from npformer.layers import Embedding
from npformer.models import Decoder, DecoderConfig, build_model
from npformer.run import RunDirectory, metrics, model_file
from npformer.run.assemble import assemble, write_run
from npformer.run.checkpoint import best_checkpoint, load_checkpoint, save_checkpoint
from npformer.run.config_file import read_toml, write_toml
from npformer.run.model_arrays import model_arrays
from npformer.run.options import SECTIONS, complete
from npformer.run.progress import RunProgress
from npformer.run.trained import load_latest, read_trained
from npformer.run.trainer import Trainer
from npformer.see.plot.charts import series
from tests.faults.mutations import mutated, mutated_tree

Files = Mapping[str, bytes]  # by path below the folder

_SMALL = {"d_model": 8, "d_ff": 8, "num_heads": 2}
_ENDS = {"steps": 2, "batch_size": 4, "eval_examples": 2, "final_examples": 2, "save_every": 1}
_STEP = "run/checkpoints/step-00000002"


class Subject(NamedTuple):
    """A kind of file: how it is mutated, how it is read (from a folder), and which errors are documented."""

    name: str
    change: Callable[[Files, random.Random], Files]
    read: Callable[[Path], Any]
    documented: tuple[type[NpformerError], ...]
    exact: bool = False  # if the read succeeds, the content must be unchanged


def make(root):
    """Write a model, two runs, pairs and vectors into the folder root. Returns their bytes, by path below root."""
    config = DecoderConfig(7, **_SMALL, num_layers=1, positions="learned", max_seq_len=6)  # type: ignore[arg-type]
    tokenizer = Characters.learn("abcd", special=SEQUENCE)
    npf.save(Decoder(config, backend=_backend(), seed=1), root / "model", tokenizer=tokenizer)
    make_trained(root / "run")
    _make_tagger(root / "tags")
    (root / "options.toml").write_bytes((root / "run" / "config.toml").read_bytes())
    (root / "text.txt").write_text("\n\n".join(f"Paragraph {n}: {n % 7} of {n % 5}." for n in range(60)))
    (root / "pairs.tsv").write_text("".join(f"{n}\t{n + 1}\n" for n in range(60)))
    lines = [f"{letter} 0.5 -1.25 3e-2 7" for letter in "abcdefg"]
    (root / "word2vec").write_text("\n".join(["7 4", *lines]) + "\n")
    (root / "glove").write_text("\n".join(lines) + "\n")
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _backend():
    return get_backend("numpy", kernels="plain", threads=1)


def make_trained(path):
    """A run of two steps on the task of copying words."""
    options = {"device": "numpy", "kernels": "plain", "task": "copy"}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    parts = assemble({"run": options, "data": {"max_length": 4}, "model": _SMALL | layers, "training": _ENDS})
    run = RunDirectory.create(path, path, "copy")
    write_run(run, parts)
    _trainer(run, parts).train()
    log, records = metrics.MetricsLog(run.metrics_path), metrics.read(run.metrics_path)
    run.metrics_path.unlink()
    clocked = {"tokens_per_second": 1000.0, "time": 1.5e9, "elapsed": 2.5}
    for record in records:  # clocks do not say the same twice, so nor would the mutations be the same
        log.append(record | {name: value for name, value in clocked.items() if name in record})


def _make_tagger(path):
    """A run whose model classifies tokens, with the files of a trained run."""
    vocabulary, classes = Vocabulary(("[PAD]", "[UNK]", *"abcdef")), ("[PAD]", "day", "month")
    options = {"device": "numpy", "kernels": "plain", "task": "tags"}
    tables = {"run": options, "data": {}, "model": _SMALL | {"num_layers": 1}, "training": _ENDS}
    sections = complete(tables, len(vocabulary), 5, len(classes))
    run = RunDirectory.create(path, path, "tags")
    run.config_path.write_text(write_toml(sections.sections()))
    vocabulary.save(run.vocabulary_path)
    run.classes_path.write_text("".join(f"{name}\n" for name in classes))
    arrays = model_arrays(build_model(sections.model, backend=_backend()))
    save_checkpoint(run.checkpoints, 1, {f"parameters.{name}": each for name, each in arrays.items()}, {}, None)


def _trainer(run, parts):
    training = parts.options.training
    return Trainer(run, parts.task, parts.step, training, parts.identity, RunProgress(2, stream=io.StringIO()))


# Mutations of the raw bytes, or of the content with a new check sum, which anybody can compute.


def _bytes_of(path, files, draw):
    return {path: mutated(files[path], draw)}


def _header_of(path, files, draw):
    """Mutate the safetensors header and update its length; or mutate the length itself."""
    data = files[path]
    stop = 8 + int.from_bytes(data[:8], "little")
    header = data[8:stop]
    if draw.random() < 0.1:
        return {path: struct.pack("<Q", draw.choice((0, 1, 10**8, 2**40, 2**63, 2**64 - 1))) + data[8:]}
    if draw.random() < 0.5:
        header = json.dumps(mutated_tree(json.loads(header), draw)).encode()
    else:
        header = mutated(header, draw)
    return {path: struct.pack("<Q", len(header)) + header + data[stop:]}


def _sealed_model(files, draw):
    """Change the configuration, the tokenizer and the arrays, and update the SHA-256."""
    stop = 8 + int.from_bytes(files["model"][:8], "little")
    metadata = dict(json.loads(files["model"][8:stop])["__metadata__"], sha256="")
    arrays = {name: array.copy() for name, array in load_arrays(files["model"]).items()}
    if draw.random() < 0.7:
        name = draw.choice(("config", "config", "tokenizer", "classes"))
        told = metadata[name].encode()
        tree = json.dumps(mutated_tree(json.loads(told), draw)).encode()
        metadata[name] = draw.choice((tree, mutated(told, draw))).decode(errors="replace")
    else:
        name = draw.choice(list(arrays))
        array = arrays.pop(name)
        arrays |= draw.choice(({}, {name + "x": array}, {name: array.astype(np.float64)}, {name: array[None]},
                               {name: array * np.nan}, {name: array[:0]}, {name: array.astype(np.int8)}))  # fmt: skip
    metadata["sha256"] = model_file.digest(metadata, arrays)
    return {"model": to_bytes(arrays, metadata)}


def _sealed_state(files, draw):
    document = mutated_tree(unseal(files[f"{_STEP}/state.json"]), draw)
    try:
        return {f"{_STEP}/state.json": seal(document)}
    except (ValueError, TypeError):  # not a document with a check sum
        return {f"{_STEP}/state.json": json.dumps(document).encode()}


def _sealed_arrays(files, draw):
    path, state = f"{_STEP}/arrays.safetensors", f"{_STEP}/state.json"
    data = draw.choice((_header_of, _bytes_of))(path, files, draw)[path]
    document = unseal(files[state])
    document["arrays"] |= {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    return {path: data, state: seal(document)}


# Readers.


def _model(root):
    model = npf.load(root / "model", backend=_backend())
    return str(model.config), model.arena.values.tobytes(), model.tokenizer.vocabulary if model.tokenizer else None


def _checkpoint(root):
    checkpoint = load_checkpoint(root / _STEP)
    return (
        checkpoint.step,
        checkpoint.score,
        str(checkpoint.state),
        {name: each.tobytes() for name, each in checkpoint.arrays.items()},
    )


def _decode(folder, root):
    run = RunDirectory.open(root / folder)
    trained = read_trained(run, "numpy")
    trained.tokenizer.encode("abc")
    best_checkpoint(run.checkpoints)


def _resume(root):
    run = RunDirectory.open(root / "run")
    checkpoint = load_latest(run)
    parts = assemble(read_toml(run.config_path, SECTIONS), checkpoint)
    _trainer(run, parts).restore(checkpoint)


def _decode_and_resume(root):
    """Run both readers, even if the first one raises."""
    try:
        _decode("run", root)
    except NpformerError:
        _resume(root)
        raise
    _resume(root)


def _options(root):
    complete(read_toml(root / "options.toml", SECTIONS), 7, 5)


def _metrics(root):
    path = root / "run" / "metrics.jsonl"
    records = metrics.read(path)
    log = metrics.MetricsLog(path)
    log.truncate_after(1)
    log.append({"kind": "train", "step": 2, "loss": 0.5})
    for kind, field in (("train", "loss"), ("eval", "loss"), ("eval", "token_accuracy"), ("train", "learning_rate")):
        series(records, kind, field)


def _pairs(root):
    PairsTask.from_tsv(root / "pairs.tsv", seed=0).batch(1, 4)


def _text(root):
    text_from_file(root / "text.txt", tokenizer="words", max_length=8).batch(1, 4)


def _vectors(name, root):
    vocabulary = Vocabulary(("[PAD]", "[UNK]", *"abcdefgh"))
    Embedding.from_pretrained(root / name, vocabulary, backend=_backend())


_OF_RUNS = (CheckpointError, ConfigError, DataError, OutputError, TokenError)

SUBJECTS = (
    Subject("model", partial(_bytes_of, "model"), _model, (CheckpointError,), exact=True),
    Subject("model: its header", partial(_header_of, "model"), _model, (CheckpointError,)),
    Subject("model: sealed again", _sealed_model, _model, (CheckpointError,)),
    Subject(
        "arrays.safetensors", partial(_bytes_of, f"{_STEP}/arrays.safetensors"), _checkpoint, (CheckpointError,), True
    ),
    Subject("state.json", partial(_bytes_of, f"{_STEP}/state.json"), _checkpoint, (CheckpointError,), True),
    Subject("arrays: sealed again", _sealed_arrays, _decode_and_resume, _OF_RUNS),
    Subject("state: sealed again", _sealed_state, _decode_and_resume, _OF_RUNS),
    Subject("config.toml", partial(_bytes_of, "run/config.toml"), _decode_and_resume, _OF_RUNS),
    Subject("config.toml: tags", partial(_bytes_of, "tags/config.toml"), partial(_decode, "tags"), _OF_RUNS),
    Subject("--config FILE", partial(_bytes_of, "options.toml"), _options, (ConfigError,)),
    Subject("vocabulary.txt", partial(_bytes_of, "run/vocabulary.txt"), _decode_and_resume, _OF_RUNS),
    Subject("vocabulary.txt: tags", partial(_bytes_of, "tags/vocabulary.txt"), partial(_decode, "tags"), _OF_RUNS),
    Subject("classes.txt", partial(_bytes_of, "tags/classes.txt"), partial(_decode, "tags"), _OF_RUNS),
    Subject("metrics.jsonl", partial(_bytes_of, "run/metrics.jsonl"), _metrics, (DataError,)),
    Subject("pairs.tsv", partial(_bytes_of, "pairs.tsv"), _pairs, (DataError,)),
    Subject("text.txt", partial(_bytes_of, "text.txt"), _text, (ConfigError, DataError)),
    Subject("word2vec", partial(_bytes_of, "word2vec"), partial(_vectors, "word2vec"), (DataError,)),
    Subject("GloVe", partial(_bytes_of, "glove"), partial(_vectors, "glove"), (DataError,)),
)
