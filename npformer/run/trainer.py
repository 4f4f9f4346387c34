"""The training loop: steps, log lines, evaluations, checkpoints, and an orderly stop.

A checkpoint holds everything that a resumed run needs: parameters, buffers, moments, the step,
and the loss summed since the last log line. Batches and dropout masks are functions of the seed and the
step, and the learning rate is a function of the step, so there is no other state. A resumed run repeats the
uninterrupted one bit for bit (on the same machine, with the same versions, BLAS core and thread count).

After a run has diverged, the way on is the last sound checkpoint, or a new run. Finite numbers may be far too large.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from npformer.data import PAD_ID, Task
from npformer.errors import CheckpointError, DeviceMemoryError, DivergedError, Interrupted
from npformer.io.printable import shell_words
from npformer.io.seconds import now, rate, since
from npformer.models import Model
from npformer.run import metrics
from npformer.run.checkpoint import Checkpoint, list_checkpoints, load_checkpoint, prune, save_checkpoint
from npformer.run.directory import RunDirectory
from npformer.run.journal import Journal, Listeners, Silent
from npformer.run.model_arrays import copy_arrays, model_arrays, model_arrays_of, saved_arrays, set_arrays
from npformer.run.options import TrainingOptions
from npformer.run.progress import RunProgress
from npformer.run.signals import StopRequest, stop_on_signals
from npformer.run.world import World, versions
from npformer.training.evaluation import Evaluation, evaluate_task
from npformer.training.step import TrainStep
from npformer.typing import HostArrays, Tensors

FAR = 2  # a held-out loss of more than so many times that of an untrained model is worth less than a new run

#: The loss fell by this share in the last two intervals between evaluations; at the end the rate is near 0.
FELL = 0.05
#: Nearly all sequences right: a loss that falls on changes little.
ENOUGH = 0.99
#: So many times the steps are proposed.
LONGER = 4


def suggest_more_steps(run: RunDirectory, records: Sequence[Mapping[str, Any]], found: Evaluation, steps: int) -> str:
    """The command with which a run goes on whose held-out loss was still falling at its end; "" if it was not.

    records: the lines of metrics.jsonl; found: the last evaluation; steps: those of the run, all made.
    """
    losses = [float(record["loss"]) for record in records if record.get("kind") == "eval"]
    if len(losses) < 3 or losses[-1] > min(losses) or losses[-1] > (1 - FELL) * losses[-3]:
        return ""
    if found.measures.get("exact_match", found.measures.get("accuracy", 0.0)) >= ENOUGH:
        return ""
    return shell_words("npformer", "train", "--resume", run.path, "--set", f"steps={LONGER * steps}")


def recovery_hint(run: RunDirectory, model: Model, task: Task, options: TrainingOptions) -> str:
    """How to go on with a run that has diverged, in words. model is lent to the checkpoints that are tried."""
    rate, saved = options.learning_rate, list_checkpoints(run.checkpoints)
    first = next((line["loss"] for line in metrics.read(run.metrics_path) if line.get("kind") == "train"), np.inf)
    most = min(FAR * first, 1e300)  # NaN if the first loss is
    sound = next((path for path in reversed(saved) if _held_out_loss(path, model, task, options) <= most), None)
    if sound is None:
        none = "no checkpoint has a sound held-out loss" if saved else "there is no checkpoint"
        return f"{none}. Start a new run with a learning_rate below {rate:g}, or with clip_norm"
    again = f"npformer train --resume {shell_words(run.path)} --set learning_rate={rate / 10:g}"
    if sound == saved[-1]:
        return f"the last checkpoint, {sound.name}, is sound: go on from it with a smaller rate: {again}"
    away = shell_words("mv", *saved[saved.index(sound) + 1 :], run.path)
    return f"{sound.name} is sound, and what was saved after it is not: move that away: {away}; then go on: {again}"


def _held_out_loss(path: Path, model: Model, task: Task, options: TrainingOptions) -> float:
    """The held-out loss of a checkpoint's model, computed in this one; NaN if the checkpoint cannot be read."""
    before = {name: np.array(array) for name, array in model_arrays(model).items()}
    try:
        set_arrays(model, model_arrays_of(load_checkpoint(path)), str(path))
        with np.errstate(all="ignore"):
            return evaluate_task(model, task, options.eval_examples).loss
    except CheckpointError:
        return np.nan
    finally:
        set_arrays(model, before, str(path))


class Trainer:
    """Trains step.model on task and writes metrics and checkpoints to run.

    identity (any JSON values, for example a description of the data) is stored with each checkpoint and must be equal
    when it is restored. config, the text of config.toml, is stored too, for ``resume``. Call ``restore`` before
    ``train`` to continue. listeners are told of each step and evaluation.
    """

    def __init__(
        self,
        run: RunDirectory,
        task: Task,
        step: TrainStep,
        options: TrainingOptions,
        identity: Mapping[str, Any] | None = None,
        progress: RunProgress | None = None,
        config: str | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        self.run = run
        self.task = task
        self.step = step
        self.options = options
        self.writes = World(step.ranks).is_first
        self.progress = (progress or RunProgress(options.steps)) if self.writes else RunProgress(0, stream=StringIO())
        self.last_evaluation: Evaluation | None = None
        self._identity, self._config = dict(identity or {}), config
        self._journal = Journal(run, self.progress, listeners or Listeners()) if self.writes else Silent()
        self._lowest, self._waited = math.inf, 0  # held-out loss, and the evaluations since
        self._loss_sum = step.model.backend.zeros(())  # since the last log line, on the device
        self._loss_count = 0
        self._watched: Any = None  # the parameters before a step after which the run evaluates, and its inputs
        self._tokens = 0
        self._clock = now()
        self._saved_at = self._finite_at = step.step_number  # last step with all, or the loss, finite

    def __repr__(self) -> str:
        return f"<Trainer of {self.run.path}: {self.task!r}, step {self.step.step_number} of {self.options.steps}>"

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint; metrics after it are dropped. Raises CheckpointError if it does not fit."""
        state = checkpoint.state
        if state.get("identity") != self._identity:
            raise CheckpointError(
                f"{checkpoint.path}: expected the data it was trained on, got others; restore them, or start a new run"
            )
        match state:
            case {"loss_count": int(count), "versions": {**trained_with}, "patience": [float(lowest), int(waited)]}:
                pass
            case _:
                raise CheckpointError(
                    f"{checkpoint.path}: expected loss_count, versions and patience, as a run saves them, got "
                    f"{', '.join(state)}; resume from a checkpoint of npformer train"
                )
        copy_arrays(self._arrays(), checkpoint.arrays, self.step.model.backend, str(checkpoint.path))
        self.step.optimizer.t = self._saved_at = self._finite_at = checkpoint.step
        self.step.model.arena.settings = state.get("settings", self.step.model.arena.settings)  # older runs have none
        self._journal.go_back(checkpoint.step)
        self._loss_count, self._lowest, self._waited = count, lowest, waited
        now = versions(self.step.model.backend)
        if trained_with != now:
            self.progress.say(
                f"note: this run was trained with {trained_with}, now it is {now}; results may differ in the last bits"
            )

    def train(self) -> None:
        """Train until options.steps. On SIGINT, SIGTERM or SIGHUP, saves and raises Interrupted.

        A closed progress output has the same effect, like SIGPIPE.

        Raises CheckpointError or OutputError if the disk is full, DivergedError if the loss, the held-out loss,
        a parameter or a moment is no longer finite; earlier checkpoints are intact. Raises DeviceMemoryError if memory
        is full, after saving if nothing of an update was begun.
        """
        self._journal.begin(self.step.step_number)
        self._clock = now()
        try:
            with stop_on_signals() as stop:
                if self.options.steps == 0:  # a run that is another's weights
                    self._look_and_save(0, evaluates=True, saves=True, last=True)
                while self.step.step_number < self.options.steps and not self.is_out_of_patience:
                    self.step.stop_signal = self._wants_to_stop(stop)
                    self._one_step()
                    self._stop_if_asked(stop)
        except MemoryError as error:
            has_begun = getattr(error, "has_begun", True)  # nobody knows what another error interrupted
            alone = self.step.ranks is None  # others are not where they could save
            raise DeviceMemoryError(f"{error}. {self._kept(alone and not has_begun)}", has_begun) from None
        finally:
            self.progress.close()
            self._journal.close()

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the held-out loss has not fallen for so many evaluations that the run ends."""
        return self.options.patience is not None and self._waited >= self.options.patience

    def evaluate(self, count: int) -> Evaluation:
        """Evaluate on the first count held-out examples; every process calls it."""
        return evaluate_task(self.step.model, self.task, count, self.step.scatter)

    def expect_finite(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation, or DivergedError if its loss is not finite: the last update broke the model."""
        if not math.isfinite(evaluation.loss):
            raise self._diverged(
                f"a finite held-out loss, got {evaluation.loss}", min(self._finite_at, self.step.step_number - 1)
            )
        return evaluation

    def _one_step(self) -> None:
        number, options, every = self.step.step_number + 1, self.options, self.options.every
        learning_rate = self.step.learning_rate
        batch = self.task.batch(number, options.batch_size)
        last = number == options.steps
        evaluates, saves = (last or number % often == 0 for often in (every.evaluate, every.save))
        if evaluates and self.writes:
            self._watched = np.array(self.step.model.backend.host(self.step.model.arena.values)), batch[:-1]
        loss = self.step(*batch)
        self._loss_sum += loss  # where it is: after a step nothing may fail for lack of memory
        self._loss_count += 1
        self._tokens += int(np.count_nonzero(batch[-1] != PAD_ID))
        self.progress.advance()
        self._journal.stepped(number, loss, learning_rate, self.step.grad_norm)
        if number % every.log == 0 or number == 1 or last:  # the first: curves begin at step 1
            self._log(number, learning_rate)
        if evaluates or saves:
            self.step.model.backend.device.synchronize()
            self._look_and_save(number, evaluates, saves, last)

    def _look_and_save(self, number: int, evaluates: bool, saves: bool, last: bool) -> None:
        """Evaluate, save, or both; tokens per second count training only."""
        began, score = now(), None
        if evaluates:
            score = self._log_evaluation(number, self.options.final_examples if last else self.options.eval_examples)
        if saves or self.is_out_of_patience:
            self.save(score)
        if self.is_out_of_patience and not last:
            self._end_early(number)
        self._clock += since(began)

    def _end_early(self, number: int) -> None:
        """Say why no step follows; the last evaluation of the run is still to be made."""
        self.last_evaluation = None
        self.progress.say(
            f"the held-out loss has not been below {self._lowest:.4f} for {self._waited} evaluations (patience): the "
            f"run ends at step {number} of {self.options.steps}"
        )

    def _log(self, number: int, learning_rate: float) -> None:
        loss = float(self._loss_sum) / self._loss_count
        record = {"step": number, "kind": "train", "loss": loss, "learning_rate": learning_rate}
        if self.step.grad_norm is not None:
            record["grad_norm"] = float(self.step.grad_norm)
        record["tokens_per_second"] = rate(self._tokens, self._clock)
        self._journal.write(record)
        self._expect_finite_loss(loss)
        self._finite_at = number
        self._loss_sum[...], self._loss_count = 0, 0
        self._tokens, self._clock = 0, now()

    def _log_evaluation(self, number: int, count: int) -> float:
        """Evaluate. Returns the score that compares checkpoints."""
        if number:
            self._log_layers(number)
        evaluation = self.last_evaluation = self.evaluate(count)
        record = {
            "step": number,
            "kind": "eval",
            "loss": evaluation.loss,
            **evaluation.measures,
            "examples": evaluation.count,
        }
        self._journal.write(record)
        self.expect_finite(evaluation)
        fell = evaluation.loss < self._lowest
        self._lowest, self._waited = (evaluation.loss, 0) if fell else (self._lowest, self._waited + 1)
        return evaluation.score

    def _log_layers(self, number: int) -> None:
        """Write what each part of the model did in the last step."""
        from npformer.training.layer_norms import layer_fields  # only when a run evaluates

        self.step.gather_gradient()
        if self._watched is not None:
            whole, model = None if self.step.grad_norm is None else float(self.step.grad_norm), self.step.model
            fields = model.backend.with_room(layer_fields, model, whole, *self._watched)
            self._journal.write({"step": number, "kind": "gradient"} | fields, shown=False)
            self._watched = None

    def _arrays(self) -> dict[str, Any]:
        """Name -> device array, of everything saved and restored."""
        return saved_arrays(self.step.model, self.step.optimizer) | {"loss_sum": self._loss_sum}

    def save(self, score: float | None = None) -> None:
        """Save a checkpoint of this step. Raises DivergedError or CheckpointError; the earlier ones are intact then.

        Every process calls it, since each may have a part of the moments.
        """
        number, backend = self.step.step_number, self.step.model.backend
        self._expect_finite_loss(float(self._loss_sum))
        arrays: HostArrays = {name: backend.host(array) for name, array in self._arrays().items()}
        self._expect_finite_arrays(arrays)
        state = {
            "identity": self._identity,
            "loss_count": self._loss_count,
            "versions": versions(backend),
            "config": self._config,
            "patience": [self._lowest, self._waited],
            "settings": self.step.model.arena.settings,
        }
        if self.writes:
            save_checkpoint(self.run.checkpoints, number, arrays, state, score)
            prune(self.run.checkpoints, self.options.keep_last)
        self._saved_at = self._finite_at = number

    def _expect_finite_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self._diverged(f"a finite loss, got {loss}", self._finite_at)

    def _expect_finite_arrays(self, arrays: Tensors) -> None:
        """Raise DivergedError unless all are finite. The loss is not enough, since it precedes the step's update."""
        odd = [name for name, array in arrays.items() if not np.isfinite(array).all()]
        if odd:
            problem = f"{len(odd)} of {len(arrays)} arrays that are not, the first {odd[0]}"
            raise self._diverged(f"finite parameters and moments, got {problem}", self._saved_at)

    def _diverged(self, expected: str, last: int) -> DivergedError:
        """The error for a diverged model, which is not saved; last: the last step that is known to be well."""
        number = self.step.step_number
        when = f"at step {number}" if last == number - 1 else f"after step {last} and at step {number} at the latest"
        lost = "" if self._saved_at == number else ", so nothing of it was saved"
        way = recovery_hint(self.run, self.step.model, self.task, self.options)
        return DivergedError(f"step {number}: expected {expected}: training has diverged {when}{lost}; {way}")

    def _kept(self, saves: bool) -> str:
        """Save, if that is possible, and explain how to continue with other options."""
        if saves and 0 < self.step.step_number != self._saved_at:
            self.save()
        number = self._saved_at
        if number == 0:
            return "No step was saved"
        return (
            f"Step {number} is saved; to go on with that: "
            f"npformer train --resume {shell_words(self.run.path)} --set KEY=VALUE"
        )

    def _wants_to_stop(self, stop: StopRequest) -> int:
        """The number of the signal that asked this process to stop, or 0."""
        return (signal.SIGPIPE if self.progress.reader_has_gone else 0) if stop.number is None else stop.number

    def _stop_if_asked(self, stop: StopRequest) -> None:
        number = self.step.step_number
        # all ranks stop after the same step
        came = self._wants_to_stop(stop) if self.step.ranks is None else self.step.latest_stop_signal
        if not came or number == self.options.steps or self.is_out_of_patience:
            return
        if self._saved_at != number:
            self.save()
        raise Interrupted(
            f"stopped at step {number} of {self.options.steps}; saved. "
            f"Continue with: npformer train --resume {shell_words(self.run.path)}",
            came,
        )
