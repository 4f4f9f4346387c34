"""A trained model with its tokenizer, read from a run's folder or from a file of ``npf.save``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from npformer.backend import Backend, get_backend
from npformer.data import Kind, Tokenizer, Vocabulary
from npformer.data.textfile import read_lines
from npformer.errors import CheckpointError, ConfigError, NpformerError
from npformer.io.printable import shell_words
from npformer.models import Model, build_model
from npformer.run.checkpoint import Checkpoint, best_checkpoint, latest_checkpoint, load_checkpoint, nearest_sound
from npformer.run.config_file import parse_toml, read_toml
from npformer.run.directory import RunDirectory
from npformer.run.model_arrays import expect_arrays, expect_finite_weights, model_arrays_of, set_arrays, table_of
from npformer.run.options import SECTIONS, RunOptions, complete
from npformer.run.tasks import ANSWERS, TASKS, Sections, tokenizer_of

DIVERGED = "move this checkpoint away, to go on from the one before it"


class Trained(NamedTuple):
    """A trained model with everything needed to use it."""

    model: Model
    tokenizer: Tokenizer
    classes: tuple[str, ...]  # by id, the first one [PAD]; () where there are none
    kind: Kind


def run_of(path: Path) -> tuple[RunDirectory, Path | None]:
    """The run in a folder, and the checkpoint if the path is that of one. Raises OutputError if it is no run."""
    is_checkpoint = path.parent.name == "checkpoints" and not (path / "config.toml").exists()
    return (RunDirectory.open(path.parent.parent), path) if is_checkpoint else (RunDirectory.open(path), None)


def read_trained(
    run: RunDirectory, device: str = "auto", best: bool = False, *, at: Path | None = None,
    backend: Backend | None = None,
) -> Trained:  # fmt: skip
    """The trained model of a run, from its latest or its best checkpoint, or the one at a path. No data are needed.

    backend: where the model lives; by default, on this device, as the run was trained.

    Raises CheckpointError if there is no checkpoint or it is damaged, or ConfigError if a file does not fit it.
    """
    sections = read_toml(run.config_path, SECTIONS)
    task = sections["run"].get("task", RunOptions.task)
    entry = TASKS[task]
    vocabulary = Vocabulary.load(run.vocabulary_path, ANSWERS[entry.kind].special)
    classes = tuple(read_lines(run.classes_path).lines) if entry.kind in ("classify", "tag") else ()
    arrays = model_arrays_of(checkpoint := load_latest(run, best=best, at=at))
    try:
        options = complete(sections, len(vocabulary), 1, len(classes))
        expect_arrays(options.model, options.run.dtype, table_of(arrays), str(checkpoint.path))
    except (CheckpointError, ConfigError) as error:
        raise _damaged(run, checkpoint, sections, error) from error
    backend = backend or _backend_to_read(options.run, device)
    model = build_model(options.model, backend=backend, seed=options.run.seed)
    set_arrays(model, arrays, str(checkpoint.path))
    model.tokenizer, model.classes = tokenizer_of(task, sections["data"])(vocabulary), classes
    return Trained(model, model.tokenizer, classes, entry.kind)


def _damaged(run: RunDirectory, saved: Checkpoint, sections: Sections, error: NpformerError) -> NpformerError:
    """The error with the file that is to blame: config.toml if it changed, else a list of words, or the checkpoint."""
    text, what, file = saved.state.get("config"), str(error), run.config_path
    if not isinstance(text, str) or parse_toml(text, saved.path, SECTIONS) == sections:
        lists = {"embedding": run.vocabulary_path, "head.": run.classes_path}  # by the arrays that have their sizes
        file = next((path for name, path in lists.items() if name in what), saved.path)
    mend = f"npformer train --resume {shell_words(run.path)} says how to mend it"
    return error if file == saved.path else type(error)(f"{file}: does not fit {saved.path.name}: {what}; {mend}")


def load_latest(run: RunDirectory, *, best: bool = False, at: Path | None = None) -> Checkpoint:
    """The latest checkpoint, or the best, or the one at a path.

    Raises CheckpointError if there is none; if it is damaged, or its weights are not finite, it says how to continue.
    """
    path = at or (best_checkpoint if best else latest_checkpoint)(run.checkpoints)
    if path is None and best and latest_checkpoint(run.checkpoints):
        raise CheckpointError(
            f"{run.path}: expected a checkpoint with a score, found none, since no evaluation came before a save; "
            "leave --best out to take the latest"
        )
    if path is None:
        raise CheckpointError(
            f"{run.path}: expected at least one checkpoint, found none: it stopped before the first; start it again: "
            f"npformer train --config {shell_words(run.config_path)}"
        )
    try:
        checkpoint = load_checkpoint(path)
    except CheckpointError as error:
        if nearest_sound(path) is None:
            raise
        away = shell_words("mv", path, run.path / f"{path.name}-damaged")
        raise CheckpointError(
            f"{error}. To go on from there, move the damaged one away and try again: {away}"
        ) from error
    expect_finite_weights(model_arrays_of(checkpoint), str(path), DIVERGED)
    return checkpoint


def backend_of(run: RunOptions, device: str) -> Backend:
    """The backend that the options of a run describe, on this device."""
    return get_backend(device, dtype=run.dtype, kernels=run.kernels, precision=run.precision)


def _backend_to_read(run: RunOptions, device: str) -> Backend:
    """The backend of the training run; the device's default if it lacks the run's kernels or precision."""
    try:
        return backend_of(run, device)
    except ConfigError:  # kernels or a precision that this device does not have
        return get_backend(device, dtype=run.dtype)
