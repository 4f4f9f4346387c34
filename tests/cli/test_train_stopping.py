"""npformer train, stopped in every way and resumed, ends like an uninterrupted run, bit for bit."""

import os
import re
import signal
import subprocess
import sys

import pytest

from npformer.run.checkpoint import latest_checkpoint, list_checkpoints, load_checkpoint
from npformer.run.progress import RunProgress

#: Long enough to be stopped on the way, with every option that could depend on the past; kernels that load quickly.
LONG = {
    "steps": 99, "save_every": 9, "log_every": 3, "eval_every": 40, "dropout": 0.1, "accumulate": 2,
    "kernels": "numpy",
}  # fmt: skip


@pytest.fixture(scope="session")
def long_run(tmp_path_factory):
    """The folder of the uninterrupted run."""
    return tmp_path_factory.mktemp("long") / "run"


@pytest.fixture
def begin(shell, small, long_run):
    """The command that starts a long run; the uninterrupted run exists by then."""
    words = ["train", "sort", *small(**LONG), "--out"]
    if not long_run.exists():
        shell(*words, long_run).fine()
    return words


#: A command with a terminal's signal handlers, however the tests were started; it waits in step 21.
PAUSED = """
import signal, sys
from npformer.cli.main import main
from npformer.run.progress import RunProgress
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
news = RunProgress.news
def and_wait(self, record):
    news(self, record)
    if record["step"] == 21:
        sys.stdin.readline()
RunProgress.news = and_wait
sys.exit(main(sys.argv[1:]))
"""


def stopped(words, environment, stop):
    """The code of such a command that is stopped while it waits, its output, and what it said after that."""
    pipe, argv = subprocess.PIPE, [sys.executable, "-c", PAUSED, *words]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as child:
        assert any(re.match(r"step +21/99", line) for line in child.stderr)
        stop(child)
        child.stdin.write("go on\n")
        child.stdin.close()
        stderr = "" if child.stderr.closed else child.stderr.read()
        return child.wait(), child.stdout.read(), stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_after_a_signal_the_run_is_saved_and_resumes_to_the_same_end(
    number, code, begin, long_run, environment, shell, same_run, tmp_path
):
    run = tmp_path / "run"
    *ended, stderr = stopped([*begin, str(run)], environment, lambda child: child.send_signal(number))
    assert ended == [code, ""]
    match = re.search(r"npformer: stopped at step 21 of 99; saved\. Continue with: npformer (.*)\n$", stderr)
    assert match, stderr
    assert load_checkpoint(latest_checkpoint(run / "checkpoints")).step == 21
    assert "Traceback" not in stderr
    shell(*match[1].split()).fine().warns("steps 21 to 99")
    same_run(run, long_run)


def test_after_a_closed_output_the_run_is_saved_and_resumes_to_the_same_end(
    begin, long_run, environment, shell, same_run, tmp_path
):
    run = tmp_path / "run"
    code, *_ = stopped([*begin, str(run)], environment, lambda child: child.stderr.close())
    assert code == 141
    assert 21 <= load_checkpoint(latest_checkpoint(run / "checkpoints")).step < 99
    shell("train --resume", run).fine()
    same_run(run, long_run)


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_an_output_closed_at_the_start_gives_no_traceback(closed, small, environment, tmp_path):
    """Trained steps are saved: all steps, unless the progress output is closed."""
    ours, theirs = os.pipe()
    os.close(ours)
    outputs = {name: theirs if closed in (name, "both") else subprocess.PIPE for name in ("stdout", "stderr")}
    argv = [sys.executable, "-m", "npformer", "train", "copy", "--out", "run", *small(kernels="numpy")]
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, **outputs) as child:
        os.close(theirs)
        out, err = child.communicate()
    assert child.returncode == 141
    assert b"Traceback" not in (out or b"") + (err or b"")
    saved = [path.name for path in list_checkpoints(tmp_path / "run" / "checkpoints")]
    assert saved[-1:] == (["step-00000030"] if closed == "stdout" else [])


KILLED = """
import sys
from npformer.cli.main import main
from tests.run.killing import kill_at
kill_at(int(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""


def test_kills_at_several_moments_change_nothing(begin, long_run, environment, shell, same_run, tmp_path):
    """tests/run/test_checkpoint_disk.py tries each moment of a save."""
    run, killed = tmp_path / "run", []
    words = [*begin, str(run)]
    for moment in (70, 91):  # about thirty calls lie between two checkpoints
        command = [sys.executable, "-c", KILLED, str(moment), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed.append([load_checkpoint(path).step for path in list_checkpoints(run / "checkpoints")][-1])
        words = ["train", "--resume", str(run)]
    assert killed == sorted(set(killed)), "each run went further than the one before"
    assert killed[-1] < 99
    shell(*words).fine()
    same_run(run, long_run)


@pytest.mark.usefixtures("usual_signals")
def test_a_second_signal_is_obeyed_at_once(train_small, monkeypatch, tmp_path):
    def signal_twice(self):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunProgress, "advance", signal_twice)
        done = train_small("copy --out run")
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("npformer: interrupted\n")
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
