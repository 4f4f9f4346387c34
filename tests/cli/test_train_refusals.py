"""Bad input to npformer train: exit 2, no folder, and a message with the value, the expectation and the fix."""

import subprocess
import sys

import pytest

from npformer.backend import cupy_problem
from npformer.run import memory
from tests.small_disk import mounted

#: Arguments of a command, and the text that the message must contain: one for each part of the way to a run. What
#: else is no option or no data is refused in tests/run/test_options.py and test_config_file.py, and in tests/data.
CASES = {
    "no task": ("", "task: expected one of copy, reverse, sort, pairs", "--resume RUN", "got none"),
    "two tasks": ("copy sort", "unknown argument 'sort'"),
    "shortened flag": ("copy --conf x", "unknown argument '--conf'; did you mean --config?"),
    "no steps": ("copy --set steps=0", "training.steps", ">= 1", "got 0"),
    "smoothing": ("copy --set label_smoothing=1", "label_smoothing", "< 1", "got 1.0"),
    "one letter": ("copy --set symbols=1", "symbols", "from 2 to 26", "got 1"),
    "six slots": ("copy --slots 6", "slots: expected a power of two, got 6"),
    "slots of plain kernels": (
        "copy --slots 8 --set kernels=plain",
        "kernels: expected numpy, numba or cuda",
        "got plain",
    ),
    "seed of letters": ("copy --seed x", "--seed", "'x'"),
    "config key": ("copy --config key.toml", "key.toml: ", "'training.stepz'", "did you mean 'training.steps'?"),
    "no tab": ("pairs --data tabless.tsv", "tabless.tsv, line 2", "source<TAB>target", "no tab", "'b B'"),
    "line ends of old Macs": (
        "lm --data mac.txt --set steps=1",
        "mac.txt: expected lines",
        "40 carriage returns",
        r"tr '\r' '\n'",
    ),
    "out below a file": ("copy --out good.tsv/run", "good.tsv/run", "a file is in the way", "another --out"),
}

FILES = {
    "key.toml": b"[training]\nstepz = 3\n",
    "good.tsv": b"".join(b"%d\t%d\n" % (n, n) for n in range(60)),
    "tabless.tsv": b"a\tA\nb B\n",
    "mac.txt": b"a\tb\r" * 40,
}


@pytest.fixture
def files(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return set(FILES)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bad_input_is_refused_before_the_folder_is_created(case, cli, files, tmp_path):
    words, *message = case
    cli(f"train {words}").refused(*message)
    assert {path.name for path in tmp_path.iterdir()} == files


def test_a_step_that_cannot_fit_into_the_memory_leaves_no_folder(cli, copied, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "host_memory", lambda: 8e9)
    words = ("training.batch_size: expected a step that fits into the memory, 8.0 GB, got one that needs at least ",
             " for 1,000,000,000 sequences of 13 tokens; at most ", "lower it, raise accumulate")  # fmt: skip
    cli("train reverse --set batch_size=1000000000").refused(*words)
    assert list(tmp_path.iterdir()) == []
    copied("run")
    cli("train --resume run --set batch_size=1000000000 --set steps=99").refused(*words)


def test_cupy_without_a_gpu(cli, tmp_path):
    if cupy_problem() is None:
        pytest.skip("a GPU answers here")
    cli("train copy --device cupy").refused("cupy: ", "use --device numpy")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(environment, tmp_path):
    """Permission bits do not stop root, but a read-only mount does; only this process sees the mount."""
    command = [*mounted(tmp_path, "ro"), sys.executable, "-m", "npformer", "train", "copy", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}: expected to write there, got: Read-only file system: choose another --out" in done.stderr
