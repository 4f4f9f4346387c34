"""npformer train --resume: files of a run that were cut, edited or lost, and leftovers of a killed process."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from npformer.errors import DivergedError
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from npformer.run.trainer import Trainer


@pytest.fixture
def run(copied):
    """A copy of a run that stopped at step 20 of 30."""
    run = copied("My run")
    shutil.rmtree(run / "checkpoints" / "step-00000030")
    return run


def edit(run, old, new):
    text = (run / "config.toml").read_text()
    assert old in text
    (run / "config.toml").write_text(text.replace(old, new))


def advised(err, start, end=";"):
    """The command in an error message that begins with these words."""
    return shlex.split(start + err.partition(start)[2].partition(end)[0])


@pytest.fixture
def mended(resume, run, trained, unchanged, same_run):
    """What a damaged run is told, which changes nothing; then its advice is followed, and the run ends as it should."""

    def check(name, *words, end=";"):
        with unchanged(run):
            told = resume()
        told.refused(*words)
        subprocess.run(advised(told.err, "mv ", end), check=True)
        resume().fine()
        same_run(run, trained)
        assert (run / name).read_bytes() == (trained / name).read_bytes()
        return told.err

    return check


def test_edited_options_are_reported_and_both_fixes_work(cli, run, mended, tmp_path):
    edit(run, "learning_rate = 0.002", "learning_rate = 0.001")
    edit(run, "eval_examples = 10", "eval_examples = 11")
    other = Path(shutil.copytree(run, tmp_path / "other"))
    told = mended(
        "config.toml",
        "config.toml: expected the options that step-00000020 was saved with, got others: ",
        "training.learning_rate was 0.002 and is 0.001; training.eval_examples was 10 and is 11. To go on with these",
    )
    meant = advised(told, "npformer train", ". Else")
    assert meant[3] == str(run)
    cli("train --resume", other, *meant[4:]).fine()
    states = [load_checkpoint(path).state["config"] for path in list_checkpoints(other / "checkpoints")]
    assert states[-1] == (other / "config.toml").read_text()
    assert "learning_rate = 0.001" in states[-1]
    assert cli("train --resume", other).code == 0, "from now on these are the run's options"


def test_options_are_changed_by_naming_them(run, resume):
    assert "steps 20 to 40" in resume("--set steps=40 --set keep_last=3").err
    assert "steps = 40" in (run / "config.toml").read_text()
    assert [path.name[-2:] for path in list_checkpoints(run / "checkpoints")][-1] == "40"
    resume("--set d_ff=20").refused("model.d_ff: expected 16, as the run began, got 20, which its weights were not")
    resume("--set stepz=20").refused("stepz", "did you mean")
    assert "d_ff = 16" in (run / "config.toml").read_text(), "what was refused is not written"


def test_the_same_command_completes_a_change_that_was_killed(run, resume):
    """config.toml is written before the checkpoint."""
    edit(run, "steps = 30", "steps = 40")
    assert "steps 20 to 40" in resume("--set steps=40").err


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("at", ["line", "middle of a line"])
def test_a_cut_config_is_reported_and_can_be_restored(run, mended, share, at):
    text = (run / "config.toml").read_bytes()
    end = text.index(b"\n", int(share * len(text))) + 1 if share else 0
    (run / "config.toml").write_bytes(text[: end if at == "line" else end + 4])
    mended("config.toml", "config.toml", "it is written anew from step-00000020")


def test_comments_in_config_do_not_count_as_edits(run, resume):
    edit(run, "[model]", "# my notes\n[model]")
    before = (run / "config.toml").read_bytes()
    resume().fine()
    assert (run / "config.toml").read_bytes() == before


def test_a_cut_vocabulary_is_reported_and_can_be_restored(run, mended):
    place = run / "vocabulary.txt"
    place.write_bytes(place.read_bytes()[:20])
    words = "vocabulary.txt, line 5: expected what the run's data gives", "found another text of 20 bytes"
    mended("vocabulary.txt", *words, end="\n")


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


def test_leftovers_of_kills_are_removed_when_the_run_is_resumed(littered, monkeypatch, resume):
    """They are removed before the first new save, which may be hours later."""
    leftovers = list[str]()

    def look(self):
        leftovers.extend(
            sorted(path.name for folder in (littered, littered / "checkpoints") for path in folder.iterdir())
        )
        raise DivergedError("enough")

    monkeypatch.setattr(Trainer, "train", look)
    assert resume().code == 1
    assert [name for name in leftovers if name.startswith((".tmp-", "step-"))] == ["step-00000006", "step-00000020"]


def test_a_refusal_removes_nothing(littered, resume, unchanged):
    with unchanged(littered):
        resume("--set d_ff=20").refused("its weights were not trained for")
