"""A checkpoint loads exactly or says why not, and no kill and no full disk ever costs an earlier one."""

from __future__ import annotations

import errno
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from npformer.errors import CheckpointError, ConfigError, DTypeError
from npformer.training import atomic, checkpoint
from npformer.training.checkpoint import (
    ARRAYS,
    STATE,
    best_checkpoint,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    prune,
    save_checkpoint,
)

DTYPES = ["bool", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128"]
SMALL = {"w": np.arange(3, dtype=np.float32)}


def make(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random bits of that type: every nan, infinity and minus zero may occur."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    data = np.random.default_rng(0).integers(0, 256, count, dtype=np.uint8)
    return (data % 2 if dtype == "bool" else data).view(dtype).reshape(shape)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def names(folder: Path) -> list[str]:
    return [path.name for path in list_checkpoints(folder)]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_bit_for_bit(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = make(dtype, shape)
    given = {
        "plain": array,
        "transposed": array.T,
        "reversed": array[..., ::-1] if shape else array,
        "fortran": np.asfortranarray(array),
        "big endian": array.astype(array.dtype.newbyteorder(">")),
    }
    loaded = load_checkpoint(save_checkpoint(tmp_path, 1, given, {}, None)).arrays
    assert sorted(loaded) == sorted(given)
    for name, back in loaded.items():
        native = given[name].astype(array.dtype)
        assert same(back, native), name
        assert back.dtype.isnative
        assert back.flags.writeable
        assert back.flags.c_contiguous


def test_everything_else_comes_back(tmp_path: Path) -> None:
    state = {
        "rng": {"state": 2**127 + 1},
        "betas": [0.9, 0.98],
        "best": -math.inf,
        "none": None,
        "text": "ü\n",
    }
    path = save_checkpoint(tmp_path / "made" / "too", 500, {}, state, 0.25)
    assert path == tmp_path / "made" / "too" / "step-00000500"
    assert sorted(os.listdir(path)) == [ARRAYS, STATE]
    back = load_checkpoint(path)
    assert (back.step, back.state, back.score, back.arrays, back.path) == (500, state, 0.25, {}, path)
    back = load_checkpoint(save_checkpoint(tmp_path, 1, {}, {"x": math.nan}, None))
    assert math.isnan(back.state["x"])
    assert back.score is None


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), [1.0], np.zeros(2, np.longdouble)])
def test_other_arrays_are_refused(tmp_path: Path, array: Any) -> None:
    with pytest.raises(DTypeError, match=r"array 'x': expected a NumPy array of one of bool.*got"):
        save_checkpoint(tmp_path, 1, {"x": array}, {}, None)
    assert os.listdir(tmp_path) == []


def test_states_that_json_would_change_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"checkpoint\.state\.a\[1\]: expected None, bool.*got set"):
        save_checkpoint(tmp_path, 1, {}, {"a": [1, {2}]}, None)
    with pytest.raises(ConfigError, match="step: expected an integer of at least 0, got -1"):
        save_checkpoint(tmp_path, -1, {}, {}, None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_any_truncation_is_noticed(tmp_path: Path, file: str) -> None:
    save_checkpoint(tmp_path, 1, SMALL, {}, None)
    path = save_checkpoint(tmp_path, 2, SMALL, {"a": 1e-05}, 0.5)
    data = (path / file).read_bytes()
    for length in range(len(data)):
        (path / file).write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=rf"step-00000002/{file}: trunc.*Load step-00000001 in the same"):
            load_checkpoint(path)
    (path / file).write_bytes(data + b"\n")
    with pytest.raises(CheckpointError, match=file):
        load_checkpoint(path)
    (path / file).write_bytes(data)
    load_checkpoint(path)


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_any_flipped_bit_is_noticed(tmp_path: Path, file: str) -> None:
    path = save_checkpoint(tmp_path, 2, {**SMALL, "é": np.ones(2) * 1j}, {"a": [1e-05, True, "é"]}, math.inf)
    data = (path / file).read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        (path / file).write_bytes(flipped)
        with pytest.raises(CheckpointError, match=rf"{file}: .*no other sound checkpoint"):
            load_checkpoint(path)
    for bit in (0, 5):  # bit 5 is upper or lower case
        for position in range(0, len(data), 3):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            (path / file).write_bytes(flipped)
            with pytest.raises(CheckpointError, match=file):
                load_checkpoint(path)


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_files_of_two_checkpoints_do_not_mix(tmp_path: Path, file: str) -> None:
    one = save_checkpoint(tmp_path, 1, SMALL, {}, None)
    two = save_checkpoint(tmp_path, 2, {"w": SMALL["w"] + 1}, {}, None)
    shutil.copy(one / file, two / file)
    with pytest.raises(CheckpointError, match="step-00000002"):
        load_checkpoint(two)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    for file in (ARRAYS, STATE):
        path = save_checkpoint(tmp_path, 1, SMALL, {}, None)
        (path / file).unlink()
        with pytest.raises(CheckpointError, match=rf"{file}: expected a checkpoint's {file}, found nothing"):
            load_checkpoint(path)
        assert names(tmp_path) == []
    with pytest.raises(CheckpointError, match=r"step-00000007: expected a checkpoint's step-00000007, found nothing"):
        load_checkpoint(tmp_path / "step-00000007")
    with pytest.raises(CheckpointError, match="found nothing"):
        load_checkpoint(tmp_path / "no" / "step-00000007")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="expected"):
        load_checkpoint(tmp_path / "file")


def test_another_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, SMALL, {}, None)
    document = atomic.unseal((path / STATE).read_bytes())
    (path / STATE).write_bytes(atomic.seal({**document, "format": 99}))
    with pytest.raises(CheckpointError, match=rf"{STATE}: expected checkpoint format 1, found 99: use the version"):
        load_checkpoint(path)
    (path / STATE).write_bytes(atomic.seal({**document, "step": 9}))
    with pytest.raises(CheckpointError, match="expected step 1 by its name, found 9"):
        load_checkpoint(path)


def test_a_copy_under_another_name_loads(tmp_path: Path) -> None:
    shutil.copytree(save_checkpoint(tmp_path, 1, SMALL, {}, None), tmp_path / "mine")
    assert load_checkpoint(tmp_path / "mine").step == 1


def test_the_way_out_is_a_sound_checkpoint(tmp_path: Path) -> None:
    paths = [save_checkpoint(tmp_path, step, SMALL, {}, None) for step in (1, 2, 3, 4, 10**8)]
    (paths[2] / ARRAYS).write_bytes(b"")
    for path, sound in [(paths[2], 2), (paths[4], 4)]:
        (path / ARRAYS).write_bytes(b"")
        with pytest.raises(CheckpointError, match=rf"Load step-{sound:08d} in"):
            load_checkpoint(path)
    for path in paths[:2]:
        (path / ARRAYS).write_bytes(b"")
    with pytest.raises(CheckpointError, match="Load step-00000004 in"):
        load_checkpoint(paths[0])


def test_order_latest_and_best(tmp_path: Path) -> None:
    assert list_checkpoints(tmp_path / "absent") == []
    assert latest_checkpoint(tmp_path) is None
    assert best_checkpoint(tmp_path) is None
    scores = {5: None, 100_000_000: 0.1, 99_999_999: 0.7, 20: 0.7, 30: math.nan, 40: -math.inf}
    for step, score in scores.items():
        save_checkpoint(tmp_path, step, {}, {}, score)
    for other in ("step-1", "step-00000001x", ".tmp-x", "step-00000002"):
        (tmp_path / other).mkdir()
    assert [load_checkpoint(path).step for path in list_checkpoints(tmp_path)] == sorted(scores)
    latest, best = latest_checkpoint(tmp_path), best_checkpoint(tmp_path)
    assert latest is not None
    assert best is not None
    assert latest.name == "step-100000000"
    assert best.name == "step-99999999"


def test_best_passes_over_what_it_cannot_read(tmp_path: Path) -> None:
    kept = save_checkpoint(tmp_path, 1, {}, {}, 0.1)
    (save_checkpoint(tmp_path, 2, {}, {}, 0.9) / STATE).write_bytes(b"{}")
    assert best_checkpoint(tmp_path) == kept


def test_prune_keeps_the_last_the_best_and_the_unreadable(tmp_path: Path) -> None:
    for step, score in [(1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, None), (6, 0.5)]:
        save_checkpoint(tmp_path, step, {}, {}, score)
    (tmp_path / "step-00000004" / STATE).write_bytes(b"")
    prune(tmp_path, 2)
    assert names(tmp_path) == [f"step-0000000{step}" for step in (2, 4, 5, 6)]
    prune(tmp_path, 10)
    assert len(names(tmp_path)) == 4
    assert not list(tmp_path.glob(".tmp-*"))
    with pytest.raises(ConfigError, match="keep_last: expected at least 1"):
        prune(tmp_path, 0)


def test_leftovers_are_ignored_and_removed_by_the_next_save(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, SMALL, {}, None)
    shutil.copytree(path, tmp_path / ".tmp-step-00000002-abc")
    assert names(tmp_path) == ["step-00000001"]
    save_checkpoint(tmp_path, 3, SMALL, {}, None)
    assert sorted(os.listdir(tmp_path)) == ["step-00000001", "step-00000003"]


def test_a_step_saved_again_is_replaced(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        path = save_checkpoint(tmp_path, 7, {"w": np.array([value])}, {}, float(value))
        assert os.listdir(tmp_path) == ["step-00000007"]
        assert load_checkpoint(path).arrays["w"] == value


def test_a_replacement_that_was_interrupted_counts(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 7, SMALL, {"turn": 1}, None)
    path.rename(tmp_path / "kept")
    save_checkpoint(tmp_path, 7, SMALL, {"turn": 2}, None).rename(tmp_path / "step-00000007.new")
    (tmp_path / "kept").rename(path)
    latest = latest_checkpoint(tmp_path)
    assert latest is not None
    assert load_checkpoint(latest).state == {"turn": 2}
    save_checkpoint(tmp_path, 8, SMALL, {}, None)
    assert sorted(os.listdir(tmp_path)) == ["step-00000007", "step-00000008"]
    assert load_checkpoint(path).state == {"turn": 2}


class WatchedSystem:
    """The os module; `fail_at` counts calls that change the disk, `watch` runs after each of them."""

    CALLS = ("open", "write", "fsync", "close", "rename", "mkdir")

    def __init__(self, fail_at: int = -1, lasting: bool = False, code: int = errno.ENOSPC) -> None:
        self.fail_at, self.lasting, self.code, self.calls = fail_at, lasting, code, 0
        self.watch = lambda: None

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(name, real) if name in self.CALLS else real

    def _counted(self, name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            self.calls += 1
            due = self.calls - 1 == self.fail_at or (self.lasting and self.calls > self.fail_at)
            if due and name != "close":
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                raise OSError(self.code, os.strerror(self.code))
            result = real(*args)
            self.watch()
            return result

        return call


def watched(monkeypatch: pytest.MonkeyPatch, system: Any) -> None:
    monkeypatch.setattr(atomic, "os", system)
    monkeypatch.setattr(checkpoint, "os", system)


def every_failure(monkeypatch: pytest.MonkeyPatch, lasting: bool, code: int) -> Iterator[WatchedSystem]:
    for fail_at in range(1000):
        system = WatchedSystem(fail_at, lasting, code)
        yield system
        watched(monkeypatch, os)
        if system.calls <= fail_at:
            assert fail_at > 10, "the failing system was by-passed"
            return


def message_of_save(folder: Path, step: int) -> str | None:
    try:
        save_checkpoint(folder, step, SMALL, {"turn": 2}, None)
    except CheckpointError as error:
        return str(error)
    return None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_failure_at_any_call_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, lasting: bool, again: bool
) -> None:
    for system in every_failure(monkeypatch, lasting, code):
        folder = tmp_path / str(system.fail_at)
        for step in (1, 2):
            save_checkpoint(folder, step, SMALL, {"turn": 1}, None)
        step = 2 if again else 3
        watched(monkeypatch, system)
        message = message_of_save(folder, step)
        if message is not None:
            assert f"step-{step:08d}: the checkpoint was not saved" in message
            assert ("disk is full" in message) == (code != errno.EIO)
            assert re.search(r"\(it needs [1-9]\d\d+ bytes\)", message)
            assert "The previous checkpoint step-00000002 is intact" in message
            assert message.endswith("then resume the run")
        found = {load_checkpoint(path).step for path in list_checkpoints(folder)}
        assert found in ({1, 2}, {1, 2, step})
        if not again:
            assert not list(folder.glob(".tmp-*"))
        watched(monkeypatch, os)
        save_checkpoint(folder, step, SMALL, {"turn": 3}, None)
        assert sorted(os.listdir(folder)) == [f"step-{number:08d}" for number in sorted({1, 2, step})]


def test_the_previous_checkpoint_is_named_as_it_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 7, SMALL, {}, None).rename(tmp_path / "step-00000007.new")
    watched(monkeypatch, WatchedSystem(6))
    with pytest.raises(CheckpointError, match="previous checkpoint step-00000007 is intact"):
        save_checkpoint(tmp_path, 8, SMALL, {}, None)
    assert names(tmp_path) == ["step-00000007"]


def test_first_save_fails_without_promising_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch, WatchedSystem(3))
    with pytest.raises(CheckpointError, match="There is no earlier checkpoint"):
        save_checkpoint(tmp_path, 1, SMALL, {}, None)
    assert os.listdir(tmp_path) == []


def test_whole_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill between any two system calls would leave: looked at after each of them."""
    save_checkpoint(tmp_path, 1, SMALL, {"turn": 0}, 1.0)
    system, seen = WatchedSystem(), [(1, 0)]

    def look() -> None:
        paths = list_checkpoints(tmp_path)
        assert all(load_checkpoint(path).score == 1.0 for path in paths)
        newest = load_checkpoint(paths[-1])
        moment = (newest.step, newest.state["turn"])
        assert moment >= seen[-1]
        seen.append(moment)

    system.watch = look
    watched(monkeypatch, system)
    for step, turn in [(2, 1), (2, 2), (3, 3), (3, 4)]:
        save_checkpoint(tmp_path, step, SMALL, {"turn": turn}, 1.0)
        prune(tmp_path, 1)
        assert seen[-1] == (step, turn)
    assert len(seen) > 40


@pytest.mark.parametrize("break_it", [lambda a: a + 1, lambda a: a.astype(np.float64), lambda a: a[:1]])
def test_what_reads_back_wrong_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, break_it: Any) -> None:
    real = safetensors.numpy.save
    monkeypatch.setattr(
        checkpoint.safetensors.numpy, "save", lambda arrays: real({k: break_it(a) for k, a in arrays.items()})
    )
    with pytest.raises(CheckpointError, match="array 'w': reads back from the disk other than"):
        save_checkpoint(tmp_path, 1, SMALL, {}, None)
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="not saved: File exists"):
        save_checkpoint(tmp_path / "file", 1, SMALL, {}, None)


FILL = """
import os, sys
from pathlib import Path
import numpy as np
from npformer.errors import CheckpointError
from npformer.training.checkpoint import *
folder = Path(sys.argv[1]) / "checkpoints"
free = os.statvfs(sys.argv[1])
assert free.f_blocks * free.f_frsize <= 256 * 1024, "not the small disk"
for step in range(1, 100):
    try:
        save_checkpoint(folder, step, {"w": np.full(2000 * step, step, float)}, {}, None)
    except CheckpointError as error:
        print(error)
        break
assert not list(folder.glob(".tmp-*"))
assert [load_checkpoint(path).step for path in list_checkpoints(folder)] == list(range(1, step)), step
prune(folder, 1)
save_checkpoint(folder, step, {"w": np.zeros(2000 * step)}, {}, None)
print("saved", step)
"""


def test_a_really_full_disk(tmp_path: Path) -> None:
    """On a file system of 256 KiB, mounted where only this process sees it."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    mount = [
        *unshare,
        "sh",
        "-c",
        'mount -t tmpfs -o size=256k none "$0" && exec "$@"',
        str(tmp_path),
    ]
    try:
        tried = subprocess.run([*mount, "true"], capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"cannot mount a small disk here: {error}")
    if tried.returncode:
        pytest.skip(f"cannot mount a small disk here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*mount, sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, cwd=os.getcwd()
    )
    assert done.returncode == 0, done.stderr
    assert "the disk is full (it needs" in done.stdout
    assert "The previous checkpoint step-00000004 is intact. Free some space" in done.stdout
    assert "saved 5" in done.stdout


LOOP = """
import itertools, sys
from pathlib import Path
import numpy as np
from npformer.training.checkpoint import *
folder = Path(sys.argv[1])
latest = latest_checkpoint(folder)
step = load_checkpoint(latest).step if latest else 0
print("ready", flush=True)
while True:
    step += 1
    for turn in range(2):
        save_checkpoint(folder, step, {"w": np.full(5000, step + turn / 2)}, {"turn": turn}, -step)
    prune(folder, 3)
    print(step, flush=True)
"""


def test_kills_at_random_moments(tmp_path: Path) -> None:
    moments, reached = random.Random(0), 0
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(moments.uniform(0.01, 0.1))
            child.send_signal(signal.SIGKILL)
            said = [int(line) for line in child.stdout.read().split(b"\n")[:-1]]
        reached = max([reached, *said])
        found = [load_checkpoint(path) for path in list_checkpoints(tmp_path)]
        for one in found:
            assert (one.arrays["w"] == one.step + one.state["turn"] / 2).all()
        assert (found[-1].step if found else 0) >= reached
    assert reached > 10
