"""npformer train --resume: files of a run that were cut, edited or lost, and leftovers of a killed process."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from npformer.errors import DivergedError
from npformer.training import Trainer
from npformer.training.checkpoint import list_checkpoints, load_checkpoint, save_checkpoint


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a run that stopped at step 20 of 30."""
    run = Path(shutil.copytree(trained, tmp_path / "My run"))
    shutil.rmtree(run / "checkpoints" / "step-00000030")
    return run


def edit(run, old, new):
    text = (run / "config.toml").read_text()
    assert old in text
    (run / "config.toml").write_text(text.replace(old, new))


def advised(err, start, end=";"):
    """The command in an error message that begins with these words."""
    return shlex.split(start + err.partition(start)[2].partition(end)[0])


def test_edited_options_are_reported_and_both_fixes_work(
    cli,
    run,
    trained,
    contents,
    same_run,
    tmp_path,
):
    edit(run, "learning_rate = 0.002", "learning_rate = 0.001")
    edit(run, "eval_examples = 10", "eval_examples = 11")
    before = contents(run)
    refused = cli("train --resume", run)
    refused.refused(
        "config.toml: expected the options that step-00000020 was saved with, got others: ",
        "training.learning_rate was 0.002 and is 0.001; training.eval_examples was 10 and is 11. To go on with these",
    )
    assert contents(run) == before
    other = Path(shutil.copytree(run, tmp_path / "other"))

    subprocess.run(advised(refused.err, "mv "), check=True)
    cli("train --resume", run).fine()
    same_run(run, trained)
    assert (run / "config.toml").read_bytes() == (trained / "config.toml").read_bytes()

    meant = advised(refused.err, "npformer train", ". Else")
    assert meant[3] == str(run)
    cli("train --resume", other, *meant[4:]).fine()
    states = [load_checkpoint(path).state["config"] for path in list_checkpoints(other / "checkpoints")]
    assert states[-1] == (other / "config.toml").read_text()
    assert "learning_rate = 0.001" in states[-1]
    assert cli("train --resume", other).code == 0, "from now on these are the run's options"


def test_options_are_changed_by_naming_them(cli, run, trained):
    assert "steps 20 to 40" in cli("train --resume", run, "--set", "steps=40", "--set", "keep_last=3").err
    assert "steps = 40" in (run / "config.toml").read_text()
    assert [path.name[-2:] for path in list_checkpoints(run / "checkpoints")][-1] == "40"
    cli("train --resume", run, "--set", "d_ff=20").refused("does not fit the model")
    cli("train --resume", run, "--set", "stepz=20").refused("stepz", "did you mean")
    assert "d_ff = 16" in (run / "config.toml").read_text(), "what was refused is not written"


def test_the_same_command_completes_a_change_that_was_killed(cli, run):
    """config.toml is written before the checkpoint."""
    edit(run, "steps = 30", "steps = 40")
    assert "steps 20 to 40" in cli("train --resume", run, "--set", "steps=40").err


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("at", ["line", "middle of a line"])
def test_a_cut_config_is_reported_and_can_be_restored(
    cli,
    run,
    trained,
    contents,
    same_run,
    share,
    at,
):
    text = (run / "config.toml").read_bytes()
    end = text.index(b"\n", int(share * len(text))) + 1 if share else 0
    (run / "config.toml").write_bytes(text[: end if at == "line" else end + 4])
    before = contents(run)
    refused = cli("train --resume", run)
    refused.refused("config.toml", "it is written anew from step-00000020")
    assert at != "line" or "got a file that was cut, or lines of it deleted: " in refused.err
    assert contents(run) == before
    subprocess.run(advised(refused.err, "mv "), check=True)
    cli("train --resume", run).fine()
    same_run(run, trained)
    assert (run / "config.toml").read_bytes() == text


def test_comments_in_config_do_not_count_as_edits(cli, run):
    edit(run, "[model]", "# my notes\n[model]")
    before = (run / "config.toml").read_bytes()
    cli("train --resume", run).fine()
    assert (run / "config.toml").read_bytes() == before


def test_a_cut_vocabulary_is_reported_and_can_be_restored(
    cli,
    run,
    trained,
    contents,
    same_run,
):
    text = (run / "vocabulary.txt").read_bytes()
    (run / "vocabulary.txt").write_bytes(text[:20])
    before = contents(run)
    refused = cli("train --resume", run)
    refused.refused("vocabulary.txt, line 5: expected what the run's data gives", "found another text of 20 bytes")
    assert contents(run) == before
    subprocess.run(advised(refused.err, "mv ", "\n"), check=True)
    cli("train --resume", run).fine()
    same_run(run, trained)
    assert (run / "vocabulary.txt").read_bytes() == text


@pytest.fixture
def littered(run):
    """The run after kills between a write and its rename, and between a save and the removal of older checkpoints."""
    saved = run / "checkpoints"
    last = load_checkpoint(saved / "step-00000020")
    for step in (2, 4, 6):
        save_checkpoint(saved, step, last.arrays, last.state, None)
    for folder in (run, saved):
        (folder / ".tmp-metrics.jsonl-0123").write_bytes(b"half")
        (folder / ".tmp-step-00000003-0123").mkdir()
        (folder / ".tmp-step-00000003-0123" / "arrays.safetensors").write_bytes(b"half")
    return run


def test_leftovers_of_kills_are_removed_when_the_run_is_resumed(cli, littered, monkeypatch):
    """They are removed before the first new save, which may be hours later."""
    found = list[str]()

    def look(self: Trainer):
        found.extend(sorted(path.name for folder in (littered, littered / "checkpoints") for path in folder.iterdir()))
        raise DivergedError("enough")

    monkeypatch.setattr(Trainer, "train", look)
    assert cli("train --resume", littered).code == 1
    assert [name for name in found if name.startswith((".tmp-", "step-"))] == ["step-00000006", "step-00000020"]


def test_a_refusal_removes_nothing(cli, littered, contents):
    before = contents(littered)
    cli("train --resume", littered, "--set", "d_ff=20").refused("does not fit the model")
    assert contents(littered) == before
