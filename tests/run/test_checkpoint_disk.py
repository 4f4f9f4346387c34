"""No kill and no full disk ever costs a checkpoint that was saved before."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.numpy

from npformer.errors import CheckpointError
from npformer.run import checkpoint
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, prune
from tests.failing_system import WatchedSystem, every_failure, watched
from tests.run.runs import names, save

ROOT = Path(__file__).resolve().parents[2]


def message_of_save(folder, step):
    try:
        save(folder, step, state={"turn": 2})
    except CheckpointError as error:
        return str(error)
    return None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_failure_at_any_call_costs_nothing(tmp_path, monkeypatch, code, lasting, again):
    for system in every_failure(monkeypatch, lasting, code, least=10):
        folder = tmp_path / str(system.fail_at)
        for step in (1, 2):
            save(folder, step, state={"turn": 1})
        step = 2 if again else 3
        watched(monkeypatch, system)
        message = message_of_save(folder, step)
        if message is not None:
            assert f"step-{step:08d}: the checkpoint was not saved" in message
            assert ("disk is full" in message) == (code != errno.EIO)
            assert re.search(r"\(it needs [1-9]\d\d+ bytes\)", message)
            assert "The previous checkpoint step-00000002 is intact" in message
            assert message.endswith("then resume the run")
        steps = {load_checkpoint(path).step for path in list_checkpoints(folder)}
        assert steps in ({1, 2}, {1, 2, step})
        if not again:
            assert not list(folder.glob(".tmp-*"))
        watched(monkeypatch, os)
        save(folder, step, state={"turn": 3})
        assert sorted(os.listdir(folder)) == [f"step-{number:08d}" for number in sorted({1, 2, step})]


def test_every_new_name_is_synced_before_the_next_one(tmp_path, monkeypatch):
    """Also that of a checkpoint that replaces one: a crash right after it finds the old one or the new one."""
    save(tmp_path, 7)
    order = []
    rename, fsync = os.rename, os.fsync
    folder = os.stat(tmp_path).st_ino
    monkeypatch.setattr(os, "rename", lambda old, new: rename(old, new) or order.append(Path(new).name[:17]))
    monkeypatch.setattr(
        os, "fsync", lambda file: fsync(file) or (order.append("sync") if os.fstat(file).st_ino == folder else None)
    )
    save(tmp_path, 7, state={"turn": 1})
    assert order == ["step-00000007.new", "sync", ".tmp-step-0000000", "sync", "step-00000007", "sync"]


def test_the_previous_checkpoint_is_named_as_it_will_be(tmp_path, monkeypatch):
    save(tmp_path, 7).rename(tmp_path / "step-00000007.new")
    watched(monkeypatch, WatchedSystem(6))
    with pytest.raises(CheckpointError, match="previous checkpoint step-00000007 is intact"):
        save(tmp_path, 8)
    assert names(tmp_path) == ["step-00000007"]


def test_first_save_fails_without_promising_an_earlier_one(tmp_path, monkeypatch):
    watched(monkeypatch, WatchedSystem(3))
    with pytest.raises(CheckpointError, match="There is no earlier checkpoint"):
        save(tmp_path)
    assert os.listdir(tmp_path) == []


def test_whole_at_every_moment(tmp_path, monkeypatch):
    """What a kill between any two system calls would leave: looked at after each of them."""
    save(tmp_path, state={"turn": 0}, score=1.0)
    system, seen = WatchedSystem(), [(1, 0)]

    def look():
        paths = list_checkpoints(tmp_path)
        assert all(load_checkpoint(path).score == 1.0 for path in paths)
        newest = load_checkpoint(paths[-1])
        moment = (newest.step, newest.state["turn"])
        assert moment >= seen[-1]
        seen.append(moment)

    system.watch = look
    watched(monkeypatch, system)
    for step, turn in [(2, 1), (2, 2), (3, 3), (3, 4)]:
        save(tmp_path, step, state={"turn": turn}, score=1.0)
        prune(tmp_path, 1)
        assert seen[-1] == (step, turn)
    assert len(seen) > 40


def test_what_reads_back_wrong_is_not_saved(tmp_path, monkeypatch):
    real = safetensors.numpy.save
    monkeypatch.setattr(
        checkpoint.safetensors.numpy, "save", lambda arrays: real({k: a + 1 for k, a in arrays.items()})
    )
    with pytest.raises(CheckpointError, match="array 'w': expected to read back what was written"):
        save(tmp_path)
    assert os.listdir(tmp_path) == []


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from npformer.run.checkpoint import *
from tests.run.killing import kill_at

say = os.write
os.fsync = lambda descriptor: None  # slow, and for power cuts: what the system has been given outlives a process

def save(folder, step, turn):
    save_checkpoint(folder, step, {"w": np.full(5000, step + turn / 2)}, {"turn": turn}, -step)

def train(folder, told):
    for step in range(1, 4):
        for turn in range(2):
            save(folder, step, turn)
            say(told, bytes([2 * step + turn]))
        prune(folder, 1)

def killed(folder, moment):
    there, told = os.pipe()
    child = os.fork()
    if child == 0:
        kill_at(moment)
        train(folder, told)
        os._exit(0)
    os.close(told)
    _, status = os.waitpid(child, 0)
    print(moment, os.waitstatus_to_exitcode(status), os.read(there, 100).hex() or "-", flush=True)
    os.close(there)
    return status != 0

moment = 1
while killed(Path(sys.argv[1]) / str(moment), moment):
    moment += 1
"""


def test_kills_at_every_moment(tmp_path):
    """Processes that save, replace and prune, each killed at another call that changes the disk; a write halfway."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    *kills, (_, ended, _) = [line.split() for line in done.stdout.splitlines()]
    assert ended == "0"
    assert {code for _, code, _ in kills} == {str(-signal.SIGKILL)}
    assert len(kills) > 100, "the kills were by-passed"
    for moment, _, told in kills:
        folder = tmp_path / moment
        saved = [0] if told == "-" else list(bytes.fromhex(told))
        checkpoints = [load_checkpoint(path) for path in list_checkpoints(folder)]
        for one in checkpoints:
            assert (one.arrays["w"] == one.step + one.state["turn"] / 2).all()
        newest = 2 * checkpoints[-1].step + checkpoints[-1].state["turn"] if checkpoints else 0
        assert newest in (saved[-1], max(saved[-1], 1) + 1), "one that was saved is lost"
        save(folder, 9)
        assert not list(folder.glob(".tmp-*"))
        assert names(folder)[-1] == "step-00000009"
