"""The training loop: when it logs, evaluates and saves, what it writes, and how it stops."""

import re
import shutil
from functools import partial

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.errors import CheckpointError, DeviceMemoryError, DivergedError, Interrupted
from npformer.run import metrics, world
from npformer.run import trainer as module
from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.run.trained import load_latest
from npformer.run.trainer import Trainer
from npformer.training import Evaluation, TrainStep
from tests.outputs import unchanged
from tests.run.runs import SMALL, Told, failing, stop_at, trainer_in

TRAINING = {"steps": 6, "batch_size": 4, "eval_every": 250, "eval_examples": 3, "final_examples": 5}


@pytest.fixture
def make(tmp_path):
    """A trainer of a small run, always in the same folder."""

    return partial(trainer_in, tmp_path, TRAINING)


@pytest.fixture
def make_spoiled(make):
    """A trainer that logs each step; ``at(trainer, step)`` is what happens to it after each."""

    def build(at, **training):
        told = Told()
        trainer = make(told, **({"log_every": 1} | training))
        told.at = lambda step: at(trainer, step)
        return trainer

    return build


def lost_at(*steps, value=np.nan):
    """At these steps every parameter becomes this value."""
    return lambda trainer, step: trainer.step.model.arena.values.fill(value) if step in steps else None


def records(trainer, kind):
    return [record for record in metrics.read(trainer.run.metrics_path) if record["kind"] == kind]


def saved(trainer):
    return [load_checkpoint(path).step for path in list_checkpoints(trainer.run.checkpoints)]


def test_when_it_logs_evaluates_and_saves(make):
    trainer = make(steps=11, log_every=4, eval_every=3, save_every=5, keep_last=9)
    trainer.train()
    assert [record["step"] for record in records(trainer, "train")] == [1, 4, 8, 11]
    assert [(r["step"], r["examples"]) for r in records(trainer, "eval")] == [(3, 3), (6, 3), (9, 3), (11, 5)]
    assert saved(trainer) == [5, 10, 11]
    scores = [load_checkpoint(path).score for path in list_checkpoints(trainer.run.checkpoints)]
    last = records(trainer, "eval")[-1]
    assert scores == [None, None, last["exact_match"] + 1e-3 * last["token_accuracy"]]
    trainer.train()
    assert trainer.step.step_number == 11, "there is nothing left to train"


def test_a_logged_loss_is_the_mean_since_the_last_line(make, monkeypatch):
    trainer, made = make(steps=7, log_every=3), TrainStep.__call__
    losses, norms = [], []

    def watched(step, *batch):
        losses.append(made(step, *batch))
        norms.append(step.grad_norm)
        return losses[-1]

    monkeypatch.setattr(TrainStep, "__call__", watched)
    rates = [trainer.step.schedule(number) for number in range(1, 8)]
    trainer.train()
    lines = records(trainer, "train")
    means = [losses[0], np.mean(losses[1:3]), np.mean(losses[3:6]), losses[6]]
    assert [r["loss"] for r in lines] == pytest.approx(means, rel=1e-6)
    assert [r["grad_norm"] for r in lines] == [float(norms[i]) for i in (0, 2, 5, 6)]
    assert [r["learning_rate"] for r in lines] == [rates[i] for i in (0, 2, 5, 6)]


def test_the_speed_is_that_of_training_alone(make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def evaluation(self, count):
        now[0] += 1000
        return Evaluation(0.0, 0.0, 0.0, count, ("",) * count)

    def saving(*args):
        now[0] += 500

    def second(step):
        now[0] += 1

    monkeypatch.setattr(Trainer, "evaluate", evaluation)
    monkeypatch.setattr(module, "save_checkpoint", saving)
    trainer = make(Told(second), steps=4, log_every=4, eval_every=3, save_every=2)
    trainer.train()
    tokens = [int(np.count_nonzero(trainer.task.batch(step, 4).tgt_out)) for step in range(1, 5)]
    assert [r["tokens_per_second"] for r in records(trainer, "train")] == [tokens[0], sum(tokens[1:]) / 3]


def test_old_checkpoints_go_and_the_best_stays(make, monkeypatch):
    matches = iter([0.1, 0.8, 0.3, 0.2, 0.4, 0.1])
    monkeypatch.setattr(Trainer, "evaluate", lambda self, count: Evaluation(1.0, 0.5, next(matches), count, ("",)))
    trainer = make(steps=6, eval_every=1, save_every=1, keep_last=2)
    trainer.train()
    assert saved(trainer) == [2, 5, 6]
    assert load_checkpoint(list_checkpoints(trainer.run.checkpoints)[0]).score == pytest.approx(0.8005)


@pytest.mark.usefixtures("usual_signals")
def test_a_signal_in_the_last_step_changes_nothing(make):
    trainer = make(stop_at(6))
    trainer.train()
    assert saved(trainer) == [6]


@pytest.mark.usefixtures("usual_signals")
def test_a_stop_at_a_step_that_is_saved_keeps_its_score(make):
    trainer = make(stop_at(1), eval_every=1, save_every=1)
    with pytest.raises(Interrupted, match=r"^stopped at step 1 of 6; saved"):
        trainer.train()
    (path,) = list_checkpoints(trainer.run.checkpoints)
    assert load_checkpoint(path).score is not None


def test_a_save_that_fails_is_told_and_costs_nothing(make, monkeypatch):
    from npformer.io import atomic_files

    told = Told(lambda step: monkeypatch.setattr(atomic_files.os, "fsync", failing()) if step > 3 else None)
    trainer = make(told, save_every=3, log_every=1)
    with pytest.raises(CheckpointError, match=r"the disk is full .* The previous checkpoint step-00000003 is intact"):
        trainer.train()
    assert saved(trainer) == [3]
    assert [record["step"] for record in records(trainer, "train")] == [1, 2, 3, 4, 5, 6]
    assert told.closed


@pytest.mark.parametrize(("log_every", "last_line"), [(1, 4), (6, 1)])
@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value):RuntimeWarning")
def test_a_diverged_model_does_not_push_out_a_sound_checkpoint(make_spoiled, log_every, last_line):
    """Noticed at the next line of the log or, if that comes first, at the next save."""
    trainer = make_spoiled(lost_at(3), save_every=2, log_every=log_every, keep_last=1)
    with pytest.raises(DivergedError, match=r"^step 4: expected a finite loss, got (nan|inf): training has diverged"):
        trainer.train()
    assert saved(trainer) == [2]
    assert all(np.isfinite(array).all() for array in load_latest(trainer.run).arrays.values())
    assert records(trainer, "train")[-1]["step"] == last_line
    assert np.isnan(trainer.step.model.generator.bias.data).all(), "it is left as it is"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "array", ["parameters.src_embedding.weight", "moments.first.generator.bias", "moments.second.generator.weight"]
)
def test_numbers_that_no_loss_shows_are_looked_at_before_they_are_saved(make_spoiled, array, value):
    """No source has a [BOS], so its embedding is never looked up; an infinite moment makes updates of 0 evermore."""

    def break_it(trainer, step):
        if step == 4:
            trainer._arrays()[array].flat[SMALL["d_model"]] = value

    trainer = make_spoiled(break_it, save_every=2, keep_last=1)
    with pytest.raises(DivergedError) as error:
        trainer.train()
    message = str(error.value)
    assert message.startswith("step 4: expected finite parameters and moments, got 1 of ")
    assert f"arrays that are not, the first {array}" in message
    assert "training has diverged after step 2 and at step 4 at the latest, so nothing of it was saved" in message
    assert "step-00000002, is sound: go on from it with a smaller rate: npformer train --resume" in message
    assert saved(trainer) == [2]


def test_a_model_whose_held_out_loss_is_not_finite_is_not_saved(make, monkeypatch):
    trainer = make(save_every=2, eval_every=2)
    losses = {4: np.inf}
    monkeypatch.setattr(
        Trainer, "evaluate", lambda self, count: Evaluation(losses.get(self.step.step_number, 1), 0.0, 0.0, count, ())
    )
    text = (
        r"^step 4: expected a finite held-out loss, got inf: training has diverged at step 4, so nothing of it was "
        r"saved; the last checkpoint, step-00000002, is sound: go on from it with a smaller rate"
    )
    with pytest.raises(DivergedError, match=text):
        trainer.train()
    assert saved(trainer) == [2]
    assert records(trainer, "eval")[-1]["loss"] == np.inf


@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value|divide by zero).*:RuntimeWarning")
def test_a_checkpoint_is_called_sound_only_if_it_is(make, make_spoiled):
    """Its numbers may be finite and far too large; resuming it says the same, and then what to do."""
    trainer = make_spoiled(lost_at(3, 4, value=1e30), save_every=1, keep_last=4)
    trainer.step.schedule = lambda step: 0.0
    with pytest.raises(DivergedError) as caught:
        trainer.train()
    folder = trainer.run.checkpoints
    away = f"mv {folder}/step-00000003 {trainer.run.path}"
    again = f"npformer train --resume {trainer.run.path} --set learning_rate=0.0006"
    text = f"; step-00000002 is sound, and what was saved after it is not: move that away: {away}; then go on: {again}"
    assert str(caught.value).endswith(text)
    for step, others in (
        (3, "step-00000002 is sound"),
        (3, "no checkpoint has a sound held-out loss. Start a new run"),
    ):
        resumed = make(log_every=1)
        resumed.restore(load_checkpoint(folder / f"step-{step:08d}"))
        with pytest.raises(DivergedError, match=re.escape(others)):
            resumed.train()
        for path in list_checkpoints(folder)[:-1]:
            shutil.rmtree(path)


def test_a_loss_far_above_that_of_an_untrained_model_is_not_sound(make_spoiled):
    def spoil(trainer, step):
        trainer.step.model.generator.bias.data[5] = 9.0 if step < 3 else np.nan

    trainer = make_spoiled(spoil, save_every=1)
    with pytest.raises(
        DivergedError, match=r"; no checkpoint has a sound held-out loss\. Start a new run with a learn"
    ):
        trainer.train()
    assert saved(trainer) == [1, 2]


def test_a_checkpoint_that_cannot_be_read_is_not_sound(make_spoiled):
    def spoil(trainer, step):
        if step == 3:
            (trainer.run.checkpoints / "step-00000002" / "arrays.safetensors").write_bytes(b"torn")
            trainer.step.model.arena.values.fill(np.nan)

    trainer = make_spoiled(spoil, save_every=1)
    with pytest.raises(
        DivergedError, match=r"step-00000001 is sound, and what was saved after it is not: move that aw"
    ):
        trainer.train()


@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value|divide by zero).*:RuntimeWarning")
def test_an_infinite_loss_is_not_sound_without_metrics_either(make_spoiled, monkeypatch):
    def spoil(trainer, step):
        if step == 2:
            trainer.run.metrics_path.unlink()
            trainer.step.model.arena.values.fill(np.nan)

    trainer = make_spoiled(spoil, save_every=1, log_every=9)
    monkeypatch.setattr(module, "evaluate_task", lambda *args: Evaluation(np.inf, 0.0, 0.0, 3, ()))
    with pytest.raises(DivergedError, match="no checkpoint has a sound held-out loss"):
        trainer.train()


def test_a_finished_run_that_diverged_says_so(make):
    """As one that was saved before held-out losses were looked at."""
    trainer = make()
    trainer.train()
    trainer.step.model.arena.values.fill(np.nan)
    text = r"^step 6: expected a finite held-out loss, got nan: training has diverged at step 6; the last checkpoint, s"
    with pytest.raises(DivergedError, match=text):
        trainer.expect_finite(trainer.evaluate(3))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda trainer, checkpoint: trainer._identity.update(task="sort"),
         r"step-00000006: expected the data it was trained on, got others; restore them"),
        (lambda trainer, checkpoint: checkpoint.arrays.pop("parameters.generator.bias"),
         r"does not fit the model: parameters.generator.bias is missing"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_other_data_or_another_model_changes_nothing(make, spoil, message):
    make().train()
    other = make()
    lines = other.run.metrics_path.read_bytes()
    checkpoint = load_latest(other.run)
    spoil(other, checkpoint)
    with unchanged(other.step.model.arena), pytest.raises(CheckpointError, match=message):
        other.restore(checkpoint)
    assert other.step.step_number == 0
    assert other.run.metrics_path.read_bytes() == lines


def test_versions_name_the_library_of_products_that_compiled_kernels_use():
    intel = pytest.importorskip("npformer.engine.numba.intel")
    assert world.versions(get_backend("numpy", kernels="numba"))["products"] == intel.product_library()
    assert "products" not in world.versions(get_backend("numpy", kernels="numpy"))


def test_other_versions_are_noted(make, monkeypatch):
    make().train()
    same, told = make(), Told()
    same.restore(load_latest(same.run))
    assert same.progress.said == []
    monkeypatch.setattr(module, "versions", lambda backend: {"numpy": "9.9"})
    other = make(told)
    other.restore(load_latest(other.run))
    assert len(told.said) == 1
    assert told.said[0].startswith("note: this run was trained with {'python'")
    assert "{'numpy': '9.9'}; results may differ in the last bits" in told.said[0]


@pytest.mark.parametrize(
    ("at", "kept"), [(0, r"No step was saved$"), (2, r"Step 2 is saved; to go on with that: npformer")]
)
def test_a_full_device_ends_the_run_with_what_was_done_saved(make, monkeypatch, at, kept):
    made = TrainStep.__call__

    def full(step, *batch):
        if step.step_number == at:
            raise DeviceMemoryError("batch_size: too large")
        return made(step, *batch)

    trainer = make()
    monkeypatch.setattr(TrainStep, "__call__", full)
    with pytest.raises(DeviceMemoryError, match=rf"^batch_size: too large\. {kept}"):
        trainer.train()
    assert saved(trainer) == [at] * (at > 0)
    assert trainer.progress.closed
