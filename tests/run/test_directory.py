"""A run directory is never taken twice, never overwritten, and refused early if it cannot serve."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from npformer.errors import DataError, OutputError
from npformer.run import directory as run_directory
from npformer.run import metrics
from npformer.run.directory import RunDirectory
from tests.run.runs import failing


def test_a_named_folder_is_made_with_its_parents(tmp_path):
    run = RunDirectory.create(tmp_path / "a" / "b", tmp_path / "runs", "copy")
    assert run.path == tmp_path / "a" / "b"
    assert os.listdir(run.path) == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["config.toml", ".hidden"])
def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match=rf"found '{name}' in it \(1 in all\).*another --out, or .*--resume"):
        RunDirectory.create(tmp_path, tmp_path / "runs", "copy")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_free_numbers_are_taken_in_turn(tmp_path):
    def create(task):
        return RunDirectory.create(None, tmp_path / "runs", task).path.name

    assert [create("copy"), create("copy"), create("reverse")] == ["copy-001", "copy-002", "reverse-001"]
    for name in ("copy-007", "copy-x", "mycopy-050", "copy-12x"):
        (tmp_path / "runs" / name).mkdir()
    (tmp_path / "runs" / "copy-008").touch()
    (tmp_path / "runs" / "copy-001").rmdir()
    assert create("copy") == "copy-009"
    (tmp_path / "runs" / "copy-999").mkdir()
    assert create("copy") == "copy-1000"
    assert create("a/b c") == "a-b-c-001"


def test_a_number_taken_since_we_looked_is_not_reused(tmp_path, monkeypatch):
    (tmp_path / "copy-001").mkdir()
    answers = iter([[], ["copy-001"]])
    monkeypatch.setattr(run_directory.os, "listdir", lambda path: next(answers))
    assert RunDirectory.create(None, tmp_path, "copy").path.name == "copy-002"


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="a file is in the way: choose another --out"):
            RunDirectory.create(path, tmp_path, "copy")
    with pytest.raises(OutputError, match="a file is in the way"):
        RunDirectory.create(None, tmp_path / "file", "copy")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("call", ["mkdir", "open", "listdir"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, call, code):
    monkeypatch.setattr(os, call, failing(code))
    for path in (tmp_path / "out", None):
        with pytest.raises(OutputError, match=r"expected to write there, got: .*choose another --out"):
            RunDirectory.create(path, tmp_path / "runs", "copy")


def test_open_wants_a_run(tmp_path):
    (tmp_path / "config.toml").touch()
    assert RunDirectory.open(tmp_path).path == tmp_path
    for path, kind in [
        (tmp_path / "absent", "nothing"),
        (tmp_path / "config.toml", "a file"),
        (tmp_path.parent, r"a folder without config\.toml"),
    ]:
        with pytest.raises(OutputError, match=f"expected the folder of a run, .*found {kind}: give"):
            RunDirectory.open(path)


def test_the_lock_lets_one_in(tmp_path):
    run = RunDirectory(tmp_path)
    with (
        run.lock(),
        pytest.raises(OutputError, match=rf"the run is in use by another process \({os.getpid()}\)"),
        RunDirectory(tmp_path).lock(),
    ):
        pytest.fail("two are in")
    with run.lock(), pytest.raises(ZeroDivisionError), RunDirectory.create(None, tmp_path, "x").lock():
        raise ZeroDivisionError
    with run.lock():
        pass


HOLD = """
import sys
from pathlib import Path
from npformer.run.directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_goes_with_a_killed_process(tmp_path):
    pipe, command = subprocess.PIPE, [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout.readline() == b"held\n"
        with (
            pytest.raises(OutputError, match=rf"in use by another process \({child.pid}\)"),
            RunDirectory(tmp_path).lock(),
        ):
            pytest.fail("two are in")
        child.send_signal(signal.SIGKILL)
        child.wait()
        with RunDirectory(tmp_path).lock():
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    with (
        pytest.warns(RuntimeWarning, match="no locks: make sure that only one process trains here"),
        RunDirectory(tmp_path).lock(),
    ):
        assert (tmp_path / "lock").exists()


@pytest.mark.parametrize("name", ["config.toml", "classes.txt"])
def test_a_pipe_in_a_file_s_place_is_not_waited_for(tmp_path, name):
    for each in {"config.toml", "vocabulary.txt"} - {name}:
        (tmp_path / each).write_text("x")
    os.mkfifo(tmp_path / name)
    with pytest.raises(OutputError, match=rf"{name}: expected a file of the run, found a pipe.*move it away"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("path", [None, "a/b"])
def test_the_folder_is_durable_in_its_parents(tmp_path, is_durable, path):
    place = RunDirectory.create(tmp_path / path if path else None, tmp_path / "runs" / "deep", "copy").path
    while place != tmp_path:
        place = place.parent
        assert is_durable(place), f"{place} may lose what was made in it"


@pytest.fixture(params=["link", "pipe"])
def odd(request, tmp_path):
    """A run whose lock and metrics are no regular files: what they lead to is neither followed nor waited for."""
    run, mine = RunDirectory(tmp_path), tmp_path / "mine"
    mine.write_text('{"step": 9}\n')
    for path in (run.path / "lock", run.metrics_path):
        os.symlink(mine, path) if request.param == "link" else os.mkfifo(path)
    yield run
    assert mine.read_text() == '{"step": 9}\n'


def test_a_link_or_a_pipe_is_no_lock(odd):
    with pytest.raises(OutputError, match=r"lock: expected to write there, .* but a link, a pipe or"), odd.lock():
        pytest.fail("held")


def test_a_link_or_a_pipe_is_no_log(odd):
    log = metrics.MetricsLog(odd.metrics_path)
    with pytest.raises(OutputError, match=r"expected to write the run's metrics, got: .* a link, a pipe.*move it away"):
        log.append({"step": 10})
    for read in (lambda: log.truncate_after(3), lambda: metrics.read(odd.metrics_path)):
        with pytest.raises(DataError, match=r"expected to read it, got: .* a link, a pipe"):
            read()
