"""Bad input to npformer train: exit 2, no folder, and a message with the value, the expectation and the fix."""

import subprocess
import sys

import pytest

from npformer.backend import cupy_problem
from tests.small_disk import mounted

#: Arguments of a command, and the text that the message must contain.
CASES = {
    "no task": ("", "task: expected one of copy, reverse, sort, pairs", "--resume RUN", "got none"),
    "unknown task": ("revers", "'revers'", "reverse", "usage: npformer train"),
    "two tasks": ("copy sort", "unknown argument 'sort'"),
    "unknown flag": ("copy --sed 3", "unknown argument '--sed'; did you mean --seed?"),
    "shortened flag": ("copy --conf x", "unknown argument '--conf'; did you mean --config?"),
    "unknown key": ("copy --set stepz=3", "'stepz' is unknown; did you mean 'training.steps'?"),
    "key in the wrong section": ("copy --set model.steps=3", "did you mean 'training.steps'?"),
    "no value": ("copy --set steps", "'steps'", "expected SECTION.KEY=VALUE"),
    "wrong type": ("copy --set steps=many", "training.steps", "expected a whole number", "'many'"),
    "half a step": ("copy --set steps=1.5", "training.steps", "expected a whole number", "'1.5'"),
    "wrong word": ("copy --set norm_order=mid", "model.norm_order", "'post'", "'pre'", "'mid'"),
    "heads": ("copy --set d_model=30", "num_heads", "divisor of d_model=30", "got 4", "nearest is 3"),
    "batch of nothing": ("copy --set batch_size=0", "training.batch_size", ">= 1", "got 0"),
    "no steps": ("copy --set steps=0", "training.steps", ">= 1", "got 0"),
    "rate nan": ("copy --set learning_rate=nan", "training.learning_rate", "> 0", "got nan"),
    "rate inf": ("copy --set learning_rate=inf", "training.learning_rate", "finite", "got inf"),
    "clip nan": ("copy --set clip_norm=nan", "training.clip_norm", "> 0", "got nan"),
    "warm-up": ("copy --set warmup_steps=1001", "training.warmup_steps", "steps=400", "got 1001"),
    "beta": ("copy --set beta1=1", "betas", "beta < 1", "1.0"),
    "smoothing": ("copy --set label_smoothing=1", "label_smoothing", "< 1", "got 1.0"),
    "dropout": ("copy --set dropout=1", "dropout", "rate < 1", "got 1.0"),
    "learned positions": (
        "copy --set positions=learned --set max_seq_len=5",
        "model.max_seq_len: expected at least 13",
        "got 5",
        "raise it, or use sinusoidal",
    ),
    "vocabulary": ("copy --set src_vocab_size=5", "model.src_vocab_size: expected 29", "leave it out"),
    "padding": ("copy --set pad_id=1", "model.pad_id: expected 0"),
    "one letter": ("copy --set symbols=1", "symbols", "from 2 to 26", "got 1"),
    "negative seed": ("copy --seed -1", "run.seed: expected an integer with 0 <= seed < 2**64, got -1"),
    "seed of letters": ("copy --seed x", "--seed", "'x'"),
    "unknown device": ("copy --device gpu", "'gpu'", "auto", "numpy", "cupy"),
    "missing config": ("copy --config no.toml", "no.toml: expected an options file, found nothing"),
    "config key": ("copy --config key.toml", "key.toml, line 2", "'stepz'", "did you mean 'steps'?"),
    "config section": ("copy --config section.toml", "section.toml, line 1", "'modle'", "'model'?"),
    "config type": ("copy --config type.toml", "type.toml, line 2", "model.d_model", "'16'"),
    "no TOML": ("copy --config bad.toml", "bad.toml, line 2: expected TOML"),
    "pairs without data": ("pairs", "data.file", "source<TAB>target", "got none", "--data"),
    "data for a generated task": ("copy --data good.tsv", "data.file: expected none", "generated"),
    "missing data": ("pairs --data no.tsv", "no.tsv: expected a readable UTF-8 text file", "check the path"),
    "data is a folder": ("pairs --data folder", "folder: expected a readable UTF-8 text file"),
    "empty data": ("pairs --data empty.tsv", "empty.tsv: expected at least one line", "empty file"),
    "no tab": ("pairs --data tabless.tsv", "tabless.tsv, line 2", "source<TAB>target", "no tab", "'b B'"),
    "too many tabs": ("pairs --data tabs.tsv", "tabs.tsv, line 3", "source<TAB>target", "2 tabs"),
    "no target": ("pairs --data onesided.tsv", "onesided.tsv, line 2: expected a target, got an empty one"),
    "no source": ("pairs --data sourceless.tsv", "sourceless.tsv, line 1: expected a source"),
    "not UTF-8": ("pairs --data latin.tsv", "latin.tsv, line 2: expected UTF-8", "0xe9", "save the file"),
    "one line": ("pairs --data one.tsv", "one.tsv: expected lines on both sides", "held_out_fraction"),
    "out below a file": ("copy --out good.tsv/run", "good.tsv/run", "a file is in the way", "another --out"),
    "out is a file": ("copy --out good.tsv", "good.tsv", "a file is in the way", "choose another --out"),
}

FILES = {
    "key.toml": b"[training]\nstepz = 3\n",
    "section.toml": b"[modle]\nd_model = 16\n",
    "type.toml": b"[model]\nd_model = '16'\n",
    "bad.toml": b"[model]\nd_model 16\n",
    "good.tsv": b"".join(b"%d\t%d\n" % (n, n) for n in range(60)),
    "empty.tsv": b"",
    "tabless.tsv": b"a\tA\nb B\n",
    "tabs.tsv": b"a\tA\nb\tB\nc\tC\tC\n",
    "onesided.tsv": b"a\tA\nb\t\n",
    "sourceless.tsv": b"\tA\nb\tB\n",
    "latin.tsv": b"a\tA\nb\t\xe9\n",
    "one.tsv": b"a\tA\n",
}


@pytest.fixture
def files(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    return {*FILES, "folder"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bad_input_is_refused_before_the_folder_is_created(case, cli, files, tmp_path):
    words, *message = case
    cli(f"train {words}").refused(*message)
    assert {path.name for path in tmp_path.iterdir()} == files


def test_cupy_without_a_gpu(cli, tmp_path):
    if cupy_problem() is None:
        pytest.skip("a GPU answers here")
    cli("train copy --device cupy").refused("cupy: ", "use --device numpy")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(environment, tmp_path):
    """Permission bits do not stop root, but a read-only mount does; only this process sees the mount."""
    for out in (tmp_path, tmp_path / "run"):
        command = [*mounted(tmp_path, "ro"), sys.executable, "-m", "npformer", "train", "copy", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{out}: expected to write there, got: Read-only file system: choose another --out" in done.stderr
        assert "Traceback" not in done.stderr
