"""Begins a run, or goes on with one: its folder, locked, with its files, and a Trainer ready to train.

folder = new_run({"run": {"task": "reverse"}}, on_evaluate=print).train()

with new_run({"run": {"task": "reverse"}}) as trainer:  # to do more with its Trainer
    trainer.train()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from npformer.errors import ConfigError
from npformer.late import higher
from npformer.run.assemble import Assembled, assemble, write_run
from npformer.run.checkpoint import Checkpoint
from npformer.run.config_file import fitted
from npformer.run.directory import RunDirectory
from npformer.run.journal import Listeners, OnEvaluate, OnStep
from npformer.run.model_file import digest
from npformer.run.options import SECTIONS
from npformer.run.progress import RunProgress
from npformer.run.resume import assemble_again, is_changed, schedule_note, tidy
from npformer.run.sinks import expect_sinks, named
from npformer.run.tasks import Sections
from npformer.run.trained import load_latest
from npformer.run.trainer import Trainer
from npformer.run.world import SINGLE, World


class NewRun(AbstractContextManager[Trainer]):
    """A run that holds its new folder: ``train()`` makes all of it, ``with`` gives its Trainer.

    Once all steps are made, both end with its pictures and its report.
    """

    def __init__(self, opened: AbstractContextManager[Trainer]) -> None:
        self._opened, self._trainer = opened, opened.__enter__()

    def __enter__(self) -> Trainer:
        return self._trainer

    def __exit__(self, *error: Any) -> bool | None:
        return self._opened.__exit__(*error)

    def train(self) -> Path:
        """Train; what ``Trainer.train`` raises is raised. Returns the run's folder."""
        with self as trainer:
            trainer.train()
        return trainer.run.path


@contextmanager
def _ending(opened: AbstractContextManager[tuple[Trainer, Assembled]]) -> Iterator[Trainer]:
    with opened as (trainer, assembled):
        yield trainer
        found, made = trainer.last_evaluation, trainer.step.step_number
        if trainer.is_out_of_patience or (found is not None and made == trainer.options.steps):
            found = found or trainer.evaluate(trainer.options.final_examples)
            if trainer.writes:
                higher("npformer.see.page.report").write_ending(trainer, assembled.options, found)


def new_run(
    options: Mapping[str, Mapping[str, Any]], path: str | PathLike[str] | None = None, *,
    on_step: OnStep | None = None, on_evaluate: OnEvaluate | None = None, log_to: Iterable[str] = (),
    ranks: Any = None, shard_optimizer: bool = False,
) -> NewRun:  # fmt: skip
    """A new run in the folder path (default: runs/TASK-001, …), as ``npformer train`` makes it.

    options: section -> option -> value, as config.toml holds them. on_step is called after each step with its number,
    loss, learning rate and gradient norm; on_evaluate with each line of kind "eval" of metrics.jsonl; log_to names
    sinks. ranks: a communicator, if several processes train together (``engine/communicator.py``); the first of them
    writes and tells. shard_optimizer: each of them keeps a part of Adam's moments. Raises ConfigError, DataError,
    DeviceError or OutputError, before anything is written.
    """
    if unknown := [section for section in options if section not in SECTIONS]:
        such = "each with its options, such as {'run': {'task': 'reverse'}}"
        raise ConfigError(f"options: expected sections of {', '.join(SECTIONS)}, {such}, got {unknown[0]!r}")
    sections = {section: fitted(options.get(section, {}), kind) for section, kind in SECTIONS.items()}
    if names := ",".join(log_to):
        sections["run"]["log_to"] = names
    place = None if path is None else Path(path)
    world = World(ranks, shard_optimizer)
    return NewRun(_ending(begun(sections, place, Listeners(on_step, on_evaluate), world)))


@contextmanager
def begun(
    sections: Sections, path: Path | None, listeners: Listeners, world: World = SINGLE
) -> Iterator[tuple[Trainer, Assembled]]:
    """A new run. Bad options are refused before its folder is made."""

    def make() -> Assembled:
        expect_sinks(named(sections["run"].get("log_to")))
        return assemble(sections, world=world)

    assembled = world.agreed(make, Assembled.conditions)
    root, task = Path("runs"), assembled.options.run.task
    folder = RunDirectory.create(path, root, task) if world.is_first else RunDirectory(path or root)
    with folder.lock() if world.is_first else nullcontext():
        trainer = assembled.trainer(folder, listeners=listeners)
        if doubt := getattr(assembled.task, "doubt", ""):
            trainer.progress.say(f"npformer: warning: {doubt}")
        if assembled.note:
            trainer.progress.say(assembled.note)
        if world.is_first:
            write_run(folder, assembled)
        yield trainer, assembled


@contextmanager
def continued(
    path: Path, changes: Sections, listeners: Listeners, world: World = SINGLE
) -> Iterator[tuple[Trainer, Assembled]]:
    """The run in a folder, to go on from its latest checkpoint with these changes of its options."""

    def open_it() -> RunDirectory:
        expect_sinks(named(changes.get("run", {}).get("log_to")))
        return RunDirectory.open(path)

    def load() -> tuple[Checkpoint, Assembled]:
        checkpoint = load_latest(folder)
        return checkpoint, assemble_again(folder, checkpoint, changes, world)

    def conditions(loaded: tuple[Checkpoint, Assembled]) -> dict[str, str]:
        checkpoint, assembled = loaded
        same = f"step {checkpoint.step}, SHA-256 {digest({}, checkpoint.arrays)}"
        return assembled.conditions() | {"checkpoint": same}

    folder = world.agreed(open_it)
    with folder.lock() if world.is_first else nullcontext():
        checkpoint, assembled = world.agreed(load, conditions)  # all have read the files
        progress = RunProgress(assembled.options.training.steps, checkpoint.step)
        trainer = assembled.trainer(folder, progress, listeners)
        trainer.restore(checkpoint)
        if world.is_first:
            tidy(folder, assembled)
        if note := schedule_note(folder, checkpoint, assembled):
            trainer.progress.say(note)
        if is_changed(checkpoint, assembled):
            trainer.save(checkpoint.score)
        yield trainer, assembled
