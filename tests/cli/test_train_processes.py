"""npformer train --processes: two real processes of MPI give the run of one, and end as one does, whatever happens."""

import io
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from npformer.cli.main import main
from npformer.engine.mpi import RankInfo
from npformer.errors import CheckpointError, RankLostError
from npformer.extras import install
from npformer.run import processes
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint
from npformer.run.processes import CHANNEL
from tests.cli.conftest import SMALL, assignments
from tests.mpi import mpi_problem

with_mpi = pytest.mark.skipif(mpi_problem() is not None, reason=str(mpi_problem()))
OPTIONS = {"kernels": "numpy", "dropout": 0.1, "accumulate": 2, "clip_norm": 0.5}

#: Python imports this in every process that it starts; RANK and PLACE say which of them does it, and what it does.
HOOK = """
import os
if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "{rank}":
    import signal, time
    from npformer.run.trainer import Trainer
    from npformer.run import assemble, trainer
    one_step, wants_to_stop = Trainer._one_step, Trainer._wants_to_stop
    {what}
"""
DIES = """
    def and_die(self):
        one_step(self)
        if self.step.step_number == 14:
            os.kill(os.getpid(), signal.SIGKILL)
    Trainer._one_step = and_die
"""
LAUNCHER = 'int(open(f"/proc/{os.getppid()}/stat").read().split()[3])'  # mpiexec, above its proxy
WAITS = """
    def and_wait(self, stop):
        while self.step.step_number == 14 and stop.number is None:
            time.sleep(0.001)
        return wants_to_stop(self, stop)
    Trainer._wants_to_stop = and_wait
"""
#: A launcher of one process whose MPI waits for another one that has died before its first word.
HANGS = """
import os, socket
from npformer.run.processes import CHANNEL, HELLO, KINDS
print("words of the launcher", flush=True)
channel = socket.socket(*KINDS)
channel.connect(os.environ[CHANNEL])
channel.send(HELLO.pack(0, os.getpid()))
channel.recv(1)
{what}
while channel.recv(1):
    pass
"""
OTHER_VERSION = """
    assemble.__version__ = "0.0.9"
"""
NO_ROOM = """
    from npformer.io import atomic_files
    from npformer.run import checkpoint
    from tests.failing_system import WatchedSystem
    save = trainer.save_checkpoint
    def full(place, number, *more):
        if number == 20:
            atomic_files.os = checkpoint.os = WatchedSystem(3, lasting=True)
        save(place, number, *more)
    trainer.save_checkpoint = full
"""
FAILS = """
    def and_fail(self):
        raise ZeroDivisionError("a bug of one rank")
    Trainer._one_step = and_fail
"""


@pytest.fixture
def hooked(tmp_path, environment):
    """hooked(rank, what): the environment in which this rank does that."""

    def make(number, what):
        folder = tmp_path / "hooks"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(HOOK.format(rank=number, what=what.strip()))
        return environment | {"PYTHONPATH": f"{folder}:{environment['PYTHONPATH']}"}

    return make


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The folder of the run of one process with eight slots, and what it printed; one thread, as in other processes."""
    folder, told = tmp_path_factory.mktemp("alone") / "one", io.StringIO()
    with redirect_stdout(told), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        assert main(["train", "reverse", "--processes", "1", "--out", str(folder), *assignments(SMALL | OPTIONS)]) == 0
    return folder, told.getvalue()


@pytest.fixture
def two(small):
    """The words of the same on two processes."""
    return ["train", "reverse", "--processes", "2", "--out", "two", *small(**OPTIONS)]


@with_mpi
def test_two_processes_give_the_run_of_one_and_tell_it_once(one, two, shell, same_run, tmp_path):
    folder, alone = one
    done = shell("", *two, "--shard-optimizer").fine()
    same_run(folder, tmp_path / "two")
    assert done.out == alone.replace(str(folder), "two")
    assert done.err.count("training reverse") == 1
    assert "slots = 8" in (tmp_path / "two" / "config.toml").read_text()


@with_mpi
@pytest.mark.parametrize(
    ("killed", "told"),
    [("os.getpid()", "rank 1 of 2: expected to train on"), (LAUNCHER, "mpiexec: expected to run on")],
)
def test_what_is_killed_ends_all_and_one_process_goes_on(one, two, shell, hooked, same_run, tmp_path, killed, told):
    done = shell("", *two, env=hooked(1, DIES.replace("os.getpid()", killed)))
    assert done.code == 1
    done.warns(f"npformer: {told}, but process ", "npformer train --resume two\n")
    assert done.err.count("has ended without a word") == 1
    shell("train --resume two").fine()
    same_run(one[0], tmp_path / "two")


@with_mpi
def test_a_signal_saves_once_and_ends_all(two, hooked, shell, one, same_run, tmp_path):
    """The first rank waits after step 14 until it is told."""
    environment = hooked(0, WAITS)
    argv = [sys.executable, "-m", "npformer", *two]
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as child:
        assert any(line.split()[:2] == ["step", "14/30"] for line in child.stderr)
        child.send_signal(signal.SIGTERM)
        told = child.stderr.read()
        assert child.wait() == 143, told
    assert told.count("stopped at step") == told.count("npformer:") == 1, told
    assert load_checkpoint(latest_checkpoint(tmp_path / "two" / "checkpoints")).step == 15
    shell("train --resume two --processes 2").fine()
    same_run(one[0], tmp_path / "two")


@with_mpi
def test_ranks_of_other_versions_are_refused_before_anything_is_written(two, shell, hooked, tmp_path):
    done = shell("", *two, env=hooked(1, OTHER_VERSION))
    done.refused("expected the same npformer in all of them, got", "in rank 0 and '0.0.9' in rank 1")
    assert done.err.count("npformer: ") == 1
    assert not (tmp_path / "two").exists()


@with_mpi
def test_a_library_of_another_mpi_than_the_launchers_is_refused(shell, environment, tmp_path):
    """Its processes know nothing of each other, and each would train the run."""
    for number, said in (("0", 1), ("1", 0)):
        told = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": number}
        done = shell("train reverse --out run", env=environment | told)
        assert done.code == 2
        assert done.err.count("processes: expected 2, as the launcher started, got 1 that know of each other") == said
    assert not (tmp_path / "run").exists()


def test_without_an_mpi_the_way_to_it_is_told(cli, monkeypatch):
    monkeypatch.setattr(processes, "find_spec", lambda name: None)
    missing = "--processes: expected mpi4py and an MPI with its mpiexec"
    cli("train reverse --processes 2").refused(missing, install("mpi"))
    monkeypatch.setattr(processes, "Path", lambda path: Path("/nowhere"))
    monkeypatch.setattr(processes.shutil, "which", lambda name: None)
    cli("train reverse --processes 2").refused("got no mpiexec; ")


def test_a_system_without_file_descriptors_of_processes_is_refused(cli, monkeypatch):
    monkeypatch.delattr(processes.os, "pidfd_open")
    cli("train reverse --processes 2").refused("--processes: expected Linux, got ", "mpiexec -n 2 npformer train")


def test_the_socket_has_a_short_path_wherever_temporary_files_are(monkeypatch, tmp_path):
    place = tmp_path / ("long" * 30)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(processes, "starting", lambda count: ["echo"])
    assert processes.launch(2, []) == 1


@pytest.mark.parametrize(("limit", "what", "code"), [(0.0, "", 1), (600.0, "os.kill(os.getppid(), 15)", 143)])
@pytest.mark.usefixtures("usual_signals")
def test_a_process_that_dies_before_it_is_known_ends_all(limit, what, code, monkeypatch, capsys):
    """Once there was time to begin, or at a signal."""
    monkeypatch.setattr(processes, "starting", lambda count: [sys.executable, "-c", HANGS.format(what=what)])
    monkeypatch.setattr(processes, "TO_JOIN", limit)
    assert processes.launch(2, []) == code
    told = "expected to start 2 processes, got 0 that MPI has connected, and exit code -9: words of the launcher"
    assert (told in capsys.readouterr().err) == (code == 1)


def test_processes_are_counted_from_one_and_not_within_a_launcher(cli, monkeypatch):
    cli("train reverse --processes 0").refused("--processes: expected an integer >= 1, got 0")
    monkeypatch.setattr(processes, "launched", lambda: RankInfo(0, 4))
    cli("train reverse --processes 2").refused("expected no launcher around it, got one that started 4")
    monkeypatch.setattr(processes, "launched", lambda: RankInfo(1, 4))
    done = cli("train reverse --processes 2")
    assert (done.code, done.err) == (2, ""), "the first process tells"


def test_a_process_that_is_told_no_number_starts_no_others(cli, monkeypatch):
    monkeypatch.setattr(processes, "launched", lambda: None)
    monkeypatch.setattr(processes, "launch", lambda count, words: pytest.fail("it starts itself again"))
    monkeypatch.setenv(CHANNEL, "/nowhere")
    cli("train reverse --processes 2").refused("expected mpiexec to tell each process its number")


@pytest.mark.parametrize(
    ("error", "told"),
    [(RankLostError("lost"), []), (CheckpointError("full"), [[2]]), (ZeroDivisionError("bug"), [[1]])],
)
def test_a_process_that_has_lost_another_tells_no_end_of_its_own(error, told, monkeypatch, capsys):
    """Else the one that was killed would not be the first to have ended without a word."""
    ends, silenced = [], []

    def train(ranks):
        raise error

    def abort(code):
        ends.append(code)
        raise SystemExit(code)

    words = []
    monkeypatch.setattr(processes, "_join", lambda place: words.append)
    monkeypatch.setattr(processes, "connect", lambda place: SimpleNamespace(abort=abort))
    monkeypatch.setattr(processes.os, "dup2", lambda *files: silenced.append(files[1]))
    with pytest.raises(SystemExit):
        processes._as_rank(RankInfo(1, 2), train)
    assert (words, ends, silenced) == ([b"joined", *map(bytes, told)], [2 if told == [[2]] else 1], [2])
    assert capsys.readouterr().err.endswith(f"npformer: rank 1 of 2: {error}\n")


@pytest.mark.parametrize(("number", "seen"), [(0, "a warning"), (1, "")])
def test_only_the_first_process_warns(number, seen, monkeypatch, capsys):
    monkeypatch.setattr(processes, "connect", lambda place: None)
    monkeypatch.delenv(CHANNEL, raising=False)
    assert processes._as_rank(RankInfo(number, 2), lambda ranks: sys.stderr.write("a warning") * 0) == 0
    assert capsys.readouterr().err == seen


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("HYDRA build details:\n", ["-launcher", "fork", "-hosts", "localhost"]),
        ("mpiexec (Open MPI) 5.0.8\n", ["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]),
        ("Intel(R) MPI Library for Linux* OS\n", []),
    ],
)
def test_each_launcher_gets_its_own_options(version, options, monkeypatch, tmp_path):
    launcher = tmp_path / "mpiexec"
    launcher.write_text(f"#!/bin/sh\nprintf '{version}'\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(processes, "find_spec", lambda name: name)
    monkeypatch.setattr(processes.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(processes.os, "geteuid", lambda: 0)
    assert processes.starting(2) == [str(launcher), *options, "-n", "2"]


def test_one_process_with_slots_starts_no_other(cli, small, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "launch", None)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "reverse", "--processes", "1", "--out", "run", *small(steps=2, kernels="numpy")]) == 0
    assert "slots = 8" in (tmp_path / "run" / "config.toml").read_text()


@with_mpi
def test_a_full_disk_of_the_first_rank_ends_all_with_that_reason(two, shell, hooked, tmp_path):
    done = shell("", *two, env=hooked(0, NO_ROOM))
    assert done.code == 1
    done.warns("step-00000020: the checkpoint was not saved: the disk is full", "step-00000010 is intact")
    assert "MPI_Abort" not in done.err
    assert load_checkpoint(latest_checkpoint(tmp_path / "two" / "checkpoints")).step == 10


@with_mpi
def test_a_bug_of_another_rank_is_told_with_its_number(two, shell, hooked):
    done = shell("", *two, env=hooked(1, FAILS))
    assert done.code == 1
    done.warns("ZeroDivisionError", "npformer: rank 1 of 2: a bug of one rank")


@with_mpi
def test_bad_input_is_refused_once_by_all(shell, tmp_path):
    done = shell("train reverse --out run --processes 2 --slots 1")
    done.refused("processes: expected a power of two that is at most the number of slots, 1, got 2")
    assert done.err.count("npformer: ") == 1
    assert not (tmp_path / "run").exists()
