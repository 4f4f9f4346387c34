"""The way on after a run has diverged: the last sound checkpoint, or a new run. Finite numbers may be far too large."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npformer.data import Task
from npformer.errors import CheckpointError
from npformer.io.printable import shell_words
from npformer.models import Model
from npformer.run import metrics
from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.run.directory import RunDirectory
from npformer.run.model_arrays import model_arrays, model_arrays_of, set_arrays
from npformer.run.options import TrainingOptions
from npformer.training.evaluation import evaluate_task

FAR = 2  # a held-out loss of more than so many times that of an untrained model is worth less than a new run


def way_on(run: RunDirectory, model: Model, task: Task, options: TrainingOptions) -> str:
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
