"""A run with patience ends when the held-out loss has not fallen for so many evaluations, and says so."""

from functools import partial

import pytest

from npformer.errors import CheckpointError
from npformer.run import RunDirectory, metrics
from npformer.run.checkpoint import list_checkpoints
from npformer.run.trained import load_latest
from npformer.run.trainer import Trainer, suggest_more_steps
from npformer.training import Evaluation
from tests.run.runs import Told, stop_at, trainer_in

TRAINING = {"steps": 9, "batch_size": 4, "eval_every": 1, "save_every": 4}
LOSSES = [3.0, 2.0, 2.5, 2.0, 1.5, 1.6, 1.7, 1.4, 1.3]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A trainer whose held-out losses, by step, are LOSSES; always in the same folder."""
    monkeypatch.setattr(
        Trainer, "evaluate", lambda self, n: Evaluation(LOSSES[self.step.step_number - 1], 0.5, 0.5, n, ("",))
    )

    return partial(trainer_in, tmp_path, TRAINING)


def end(trainer):
    return trainer.step.step_number, [int(path.name[5:]) for path in list_checkpoints(trainer.run.checkpoints)][-1]


@pytest.mark.parametrize(("patience", "last"), [(None, 9), (1, 3), (2, 4), (3, 9)])
def test_when_it_ends(make, patience, last):
    """By hand: after 2.0 come 2.5 and 2.0, which is not lower; after 1.5 come 1.6 and 1.7."""
    told = Told()
    trainer = make(told, patience=patience)
    trainer.train()
    assert end(trainer) == (last, last), "and is saved"
    assert trainer.is_out_of_patience == (last != 9)
    lines = [line for line in told.said if "patience" in line]
    wanted = f"below 2.0000 for {patience} evaluations (patience): the run ends at step {last} of 9"
    assert [line.endswith(wanted) for line in lines] == [True] * (last != 9)
    assert (trainer.last_evaluation is None) == (last != 9), "the last one has final_examples"


def test_a_resumed_run_has_the_patience_that_is_left(make):
    first = make(stop_at(3), patience=2)
    with pytest.raises(BaseException, match="stopped at step 3"):
        first.train()
    again = make(patience=2)
    again.restore(load_latest(again.run))
    again.train()
    assert end(again) == (4, 4)
    lines = len(metrics.read(again.run.metrics_path))
    once_more = make(patience=2)
    once_more.restore(load_latest(once_more.run))
    once_more.train()
    assert end(once_more) == (4, 4), "it has ended"
    assert len(metrics.read(again.run.metrics_path)) == lines
    longer = make(patience=3)
    longer.restore(load_latest(longer.run))
    longer.train()
    assert end(longer) == (9, 9)


@pytest.mark.parametrize("odd", [None, [1.0, "2"], [1.0, 2, 3]])
def test_another_patience_in_a_checkpoint_is_refused(make, odd):
    make().train()
    trainer = make()
    checkpoint = load_latest(trainer.run)
    checkpoint.state["patience"] = odd
    with pytest.raises(CheckpointError, match="expected loss_count, versions and patience, as a run saves them"):
        trainer.restore(checkpoint)


def found(exact_match=0.5, kind="translate", loss=1.0):
    return Evaluation(loss, 0.5, exact_match, 10, (), kind)


@pytest.mark.parametrize(
    ("losses", "evaluation", "says"),
    [
        ([1.51, 1.18, 0.99, 0.84, 0.75], found(0.14), True),  # 3,000 sums of two numbers, at the default
        ([1.0, 0.5, 0.2, 0.1, 0.05], found(0.995), False),  # all right
        ([1.51, 1.18, 0.99, 0.84, 0.85], found(), False),  # rose at the end
        ([1.0, 0.9, 0.88, 0.87, 0.86], found(), False),  # fell by less than 5 %
        ([1.0, 0.5], found(), False),  # too few to tell
        ([2.0, 1.8, 1.6], found(kind="causal"), True),
        ([2.0, 1.8, 1.6], found(0.995, kind="classify"), False),
    ],
)
def test_what_was_still_falling(losses, evaluation, says, tmp_path):
    records = [{"kind": "run"}, *({"kind": "eval", "step": 1, "loss": loss} for loss in losses)]
    records.insert(2, {"kind": "train", "step": 1, "loss": 9.0})
    command = f"npformer train --resume {tmp_path} --set steps=4000"
    assert suggest_more_steps(RunDirectory(tmp_path), records, evaluation, 1000) == (command if says else "")
