"""npformer train --resume: continued runs, refused options, and the advice for a damaged checkpoint."""

import hashlib
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from npformer.optim import Noam, WarmupCosine
from npformer.run import RunDirectory, metrics
from npformer.run.checkpoint import load_checkpoint

PICTURES = {"curves.svg", "attention.svg", "lock", "report.html"}  # lock holds the number of the process


@pytest.fixture
def run(copied):
    """A copy of a finished run, to be damaged."""
    return copied("my run")


def back_to(run, step):
    """Make a run look as if it had stopped there."""
    for path in (run / "checkpoints").iterdir():
        if path.name > f"step-{step:08d}":
            shutil.rmtree(path)


def test_a_finished_run_prints_its_results_again_and_changes_nothing(run, contents, resume):
    before = contents(run)
    done = resume("--json").fine()
    assert (done.document["step"], done.document["sequences"]) == (30, 20)
    after = contents(run)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= PICTURES
    text = resume()
    assert "held-out exact match" in text.out
    assert f"has made all of its 30 steps; to let it go on: npformer train --resume '{run}' --set steps=60" in text.err


def test_continues_to_the_same_end_from_any_folder(cli, run, trained, same_run):
    back_to(run, 20)
    cli("train --resume 'my run'").fine().warns("steps 20 to 30")
    same_run(run, trained)


def test_no_other_option_is_taken(run, resume, unchanged):
    refused_options = {"copy": "TASK", "--seed 0": "--seed", "--out x": "--out", "--device numpy": "--device",
             "--data x": "--data", "--config x": "--config"}  # fmt: skip
    with unchanged(run):
        for line, named in refused_options.items():
            resume(line).refused("--resume: expected no other options", f"got {named};")


def test_a_run_without_checkpoints_says_how_to_begin_again(cli, run, tmp_path, resume):
    shutil.rmtree(run / "checkpoints")
    refused = resume()
    refused.refused("expected at least one checkpoint, found none", "start it again: npformer train --config ")
    command = shlex.split(refused.err.partition("start it again: npformer ")[2])
    cli(*command, "--out", "again").fine()
    assert (tmp_path / "again" / "attention.svg").exists()


def test_another_process_trains_there(run, contents, resume):
    with RunDirectory.open(run).lock():
        before = contents(run)
        resume().refused("in use by another process", "wait for it or stop it")
        shutil.rmtree(run / "checkpoints")  # before its first checkpoint: not "stopped"
        resume().refused("in use by another process")
    assert {name: before[name] for name in contents(run)} == contents(run)


@pytest.mark.parametrize("file", ["arrays.safetensors", "state.json"])
def test_the_advice_for_a_damaged_checkpoint_works(cli, run, trained, contents, same_run, file, resume):
    path = run / "checkpoints" / "step-00000030" / file
    path.write_bytes(path.read_bytes()[:-9])
    before = contents(run)
    refused = resume()
    refused.refused(str(path), "Load step-00000020", "which is sound", "move the damaged one away and try again")
    decoded = cli("decode", run, "abc")
    decoded.refused("step-00000020", "move the damaged one away")
    assert contents(run).items() - before.items() == set(), "a refusal changed the run"
    for told in (refused, decoded):
        assert told.err.strip().endswith(f"try again: {shlex.join(advice(run))}")
    subprocess.run(advice(run), check=True)
    resume().fine()
    same_run(run, trained)


def advice(run):
    return ["mv", str(run / "checkpoints" / "step-00000030"), str(run / "step-00000030-damaged")]


def test_when_no_checkpoint_is_sound_there_is_nothing_to_move(run, resume):
    for path in (run / "checkpoints").iterdir():
        (path / "state.json").write_bytes(b"{}")
    refused = resume()
    refused.refused("step-00000030", "There is no other sound checkpoint", "start a new run")
    assert "mv " not in refused.err


@pytest.fixture
def pairs_run(train_small, tmp_path):
    (tmp_path / "own.tsv").write_text("".join(f"{n}\t{n}\n" for n in range(60)))
    train_small("pairs --data own.tsv --out run", steps=5, save_every=2).fine()
    back_to(tmp_path / "run", 4)
    return tmp_path / "run"


def test_changed_data_are_refused(cli, pairs_run, tmp_path, unchanged):
    """By how long the file was and is, and how its SHA-256 begins: nothing raw."""
    data = tmp_path / "own.tsv"
    text = data.read_text()
    before, after = (hashlib.sha256(x.encode()).hexdigest()[:8] for x in (text, text + "7\t8\n"))
    size = len(text)
    data.write_text(text + "7\t8\n")
    with unchanged(pairs_run):
        done = cli("train --resume", pairs_run)
    done.refused(
        f"{data}: expected the data that the run was trained on, {size} bytes of SHA-256 {before}…, got {size + 4} "
        f"bytes of SHA-256 {after}…; restore the data file, or start a new run"
    )
    assert "{" not in done.err
    data.write_text(text)
    cli("train --set task=copy --set data.file=none --resume", pairs_run).refused(
        "copy: expected the data that the run was trained on, those of 'pairs', got the task copy; restore its options"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("d_ff=8 --set d_model=8", "model.d_model, model.d_ff: expected 16, 16, as the run began, got 8, 8, which its"),
        (
            "dtype=float64 --set learning_rate=1",
            "run.dtype: expected float32, as the run began, got float64, which",
        ),
        (
            "symbols=9",
            "data.symbols: expected 26, as the run began, got 9: with it the vocabulary would be another; leave",
        ),
    ],
)
def test_what_cannot_change_on_resume_is_named(run, resume, unchanged, change, message):
    with unchanged(run):
        resume(f"--set {change}").refused(message, "start a new run")


def test_data_that_has_moved(cli, pairs_run, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli("train --resume", pairs_run).code == 0, "the current folder must not matter"
    (tmp_path / "own.tsv").rename(tmp_path / "mine.tsv")
    config = pairs_run / "config.toml"
    refused = cli("train --resume", pairs_run)
    refused.refused(str(tmp_path / "own.tsv"), f"named in {config}", f"{pairs_run} --set data.file=PLACE")
    cli("train --resume", pairs_run, "--set", "data.file=../mine.tsv").fine()
    assert f'file = "{tmp_path / "mine.tsv"}"' in config.read_text()


def test_a_run_keeps_its_sinks_and_a_picture_that_cannot_be_written_fails_none(train_small, cli, tmp_path):
    train_small("copy --out run --log-to csv", steps=10).fine()
    (tmp_path / "run" / "curves.svg").unlink()
    (tmp_path / "run" / "curves.svg").symlink_to("elsewhere")
    cli("train --resume run --set steps=12").fine().warns("warning: no curves.svg was written: ")
    assert "12,eval" in (tmp_path / "run" / "metrics.csv").read_text()


def extended(train_small, cli, tmp_path, **options):
    """A run of 20 steps that went on to 30, one that had 30 from its start, and what was said of the extension."""
    options = {"warmup_steps": 3, "dropout": 0.1, "log_every": 5} | options
    train_small("copy --out parts", **options | {"steps": 20}).fine()
    train_small("copy --out whole", **options).fine()
    done = cli("train --resume parts --set steps=30").fine()
    assert "steps 20 to 30 of 8 sequences" in done.err
    (note,) = [line for line in done.err.splitlines() if line.startswith("note: ")]
    return tmp_path / "parts", tmp_path / "whole", note


@pytest.mark.parametrize("schedule", ["constant", "noam"])
def test_a_run_that_is_extended_ends_as_one_that_was_longer(train_small, cli, tmp_path, schedule):
    """To the bit, where the schedule does not depend on the number of steps."""
    parts, whole, note = extended(train_small, cli, tmp_path, schedule=schedule)
    rate = {"constant": 0.002, "noam": Noam(16, 3, 0.002)(21)}[schedule]
    assert note == (
        f"note: the run goes on to step 30 instead of 20; by the schedule {schedule} the rate of step 21 is {rate:.2e}"
    )
    one, other = (load_checkpoint(run / "checkpoints" / "step-00000030") for run in (parts, whole))
    assert one.arrays.keys() == other.arrays.keys()
    assert all(np.array_equal(one.arrays[name], array) for name, array in other.arrays.items())
    assert one.state["config"] == other.state["config"]
    assert (parts / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()


def test_what_an_extension_does_to_the_schedule_is_told(train_small, cli, tmp_path):
    parts, _, note = extended(train_small, cli, tmp_path)
    rate = WarmupCosine(0.002, 3, 30)
    assert note == (
        "note: the run goes on to step 30 instead of 20; by the schedule warmup_cosine the rate of step 21 is "
        f"{rate(21):.2e} instead of 0.00e+00"
    )
    rates = {r["step"]: r["learning_rate"] for r in metrics.read(parts / "metrics.jsonl") if r["kind"] == "train"}
    assert rates == {1: pytest.approx(0.002 / 3), **{n: WarmupCosine(0.002, 3, 20)(n) for n in (5, 10, 15, 20)},
                     25: rate(25), 30: rate(30)}  # fmt: skip


def test_an_extension_logs_as_the_longer_run_would(train_small, cli, tmp_path):
    follows = {"log_every": "none", "eval_every": "none", "save_every": "none"}
    train_small("copy --out run", **follows).fine()
    cli("train --resume run --set steps=90").fine()
    steps = [r["step"] for r in metrics.read(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"]
    assert steps == [*range(1, 31), *range(32, 91, 2)]


def test_a_run_does_not_go_back(run, resume, unchanged):
    with unchanged(run):
        resume("--set steps=29").refused(
            "training.steps: expected at least 30, which step-00000030 has made, got 29", "a run does not go back"
        )


@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value).*:RuntimeWarning")
def test_a_run_that_has_diverged_is_not_told_to_go_on(train_small, cli, tmp_path):
    """Its checkpoints are finite, and worth nothing; resuming it says so, instead of the same again."""
    line = "reverse --out run"
    options = {"learning_rate": 1e9, "steps": 20, "save_every": 1, "eval_every": 2, "log_every": 1}
    for outcome in (train_small(line, **options), cli("train --resume run")):
        assert outcome.code == 1
        outcome.warns(
            "a finite held-out loss, got nan: training has diverged", "no checkpoint has a sound held-out loss. "
        )
        outcome.warns("Start a new run with a learning_rate below 1e+09")
        assert "go on" not in outcome.err
    assert not (tmp_path / "run" / "report.html").exists()
