"""Begins a run, or goes on with one: its folder, locked, with its files, and a Trainer ready to train.

folder = new_run({"run": {"task": "reverse"}}, on_evaluate=print).train()

with new_run({"run": {"task": "reverse"}}) as trainer:  # to do more with its Trainer
    trainer.train()

Each checkpoint holds the text of config.toml. So a config.toml that was cut or edited is noticed and can be written
again. ``--set`` changes an option on purpose (``--resume RUN --set learning_rate=0.001``), and lets a finished run go
on (``--resume RUN --set steps=720``).

No state of random numbers is restored, since there is none: masks and batches are functions of the seed and the step,
and ``Trainer.restore`` sets the step (``trainer.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from npformer.errors import CheckpointError, ConfigError, DataError, OutputError
from npformer.io.atomic_files import describe, read_regular, remove_leftovers
from npformer.io.printable import shell_words
from npformer.late import higher
from npformer.run.assemble import Assembled, assemble, write_run
from npformer.run.checkpoint import Checkpoint, prune
from npformer.run.config_file import fitted, in_shell, parse_toml, read_toml
from npformer.run.directory import RunDirectory
from npformer.run.journal import Listeners, OnEvaluate, OnStep
from npformer.run.model_arrays import first_five
from npformer.run.model_file import digest
from npformer.run.options import SECTIONS
from npformer.run.progress import RunProgress
from npformer.run.sinks import expect_sinks, named
from npformer.run.tasks import Sections
from npformer.run.trained import load_latest
from npformer.run.trainer import Trainer
from npformer.run.world import SINGLE, World

_PIECES = "the vocabulary would be another"
#: Options of data that cannot change, and why.
FIXED = {"held_out_fraction": "the run would be evaluated on examples that it has trained on", "symbols": _PIECES,
         "tokenizer": _PIECES, "max_pieces": _PIECES}  # fmt: skip
FREE = ("model.dropout", "model.recompute", "model.max_seq_len")  # options of a model that may change


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
        world.agreed(lambda: _expect_steps(trainer, checkpoint, changes))
        if world.is_first:
            tidy(folder, assembled)
        if note := schedule_note(folder, checkpoint, assembled):
            trainer.progress.say(note)
        if is_changed(checkpoint, assembled):
            trainer.save(checkpoint.score)
        yield trainer, assembled


def assemble_again(run: RunDirectory, checkpoint: Checkpoint, changes: Sections, world: World = SINGLE) -> Assembled:
    """The run's parts, with the options of the checkpoint and these changes, by section and key. Nothing is written.

    Raises ConfigError if config.toml differs or a change makes no sense, CheckpointError if the data, vocabulary.txt
    or classes.txt differ, DataError if the data's file is missing.
    """
    saved = saved_options(run, checkpoint)
    wanted = {section: saved[section] | dict(changes.get(section, {})) for section in saved}
    _expect_options(run, checkpoint, saved, wanted)
    then, now = _flat(saved), _flat(wanted)
    if fixed := [name for name in now if _is_fixed(name) and then.get(name) != now[name]]:
        of_data = (f": with it {why}" for name, why in FIXED.items() if f"data.{name}" in fixed)
        why = next(of_data, ", which its weights were not trained for: on resume it cannot change")
        raise ConfigError(
            f"{', '.join(fixed)}: expected {', '.join(_word(then, name) for name in fixed)}, as the run began, got "
            f"{', '.join(_word(now, name) for name in fixed)}{why}; leave it, or start a new run"
        )
    try:
        assembled = assemble(wanted, checkpoint, world)
    except DataError as error:
        place = shell_words("npformer", "train", "--resume", run.path, "--set", "data.file=PLACE")
        raise DataError(
            f"{error}. The run's data file is named in {run.config_path}, [data] file: put it back, or give its "
            f"new path: {place}"
        ) from error
    for path, content in assembled.word_lists(run).items():
        _expect_content(path, content)
    steps = assembled.options.training.steps
    if steps < checkpoint.step:
        raise ConfigError(
            f"training.steps: expected at least {checkpoint.step}, which {checkpoint.path.name} has made, got {steps}; "
            "a run does not go back: start a new one"
        )
    return assembled


def way_on(trainer: Trainer, changes: Sections | None = None) -> tuple[str, str]:
    """Why a run makes no further step, and the command that lets it go on with these changes; "" if it makes one."""
    made, steps = trainer.step.step_number, trainer.options.steps
    if trainer.is_out_of_patience:
        why, longer = f"has ended by patience at step {made}", "patience=none"
    elif made >= steps > 0:
        why, longer = f"has made all of its {steps} steps", f"steps={2 * steps}"
    else:
        return "", ""
    names = {name.partition(".")[2]: value for name, value in _flat(changes or {}).items()}
    options = [f"{name}={in_shell(value)}" for name, value in names.items() if name != longer.partition("=")[0]]
    words = [word for option in [*options, longer] for word in ("--set", option)]
    return why, shell_words("npformer", "train", "--resume", trainer.run.path, *words)


def _expect_steps(trainer: Trainer, checkpoint: Checkpoint, changes: Sections) -> None:
    """Raise ConfigError for changes of how a run trains that makes no further step."""
    then, now = _flat(saved_options(trainer.run, checkpoint)), _flat(changes)
    idle = [name for name in now if name.startswith("training.") and then.get(name) != now[name]]
    why, again = way_on(trainer, changes)
    if why and {*idle} - {"training.keep_last", "training.final_examples"}:
        raise ConfigError(
            f"{', '.join(idle)}: expected a run that makes further steps; {trainer.run.path} {why}, and no option is "
            f"changed; to let it go on with another: {again}"
        )


def is_changed(checkpoint: Checkpoint, assembled: Assembled) -> bool:
    """Whether the checkpoint was saved with other options; notes in the text of a file do not count."""
    text = checkpoint.state.get("config")
    path = checkpoint.path
    return text is not None and parse_toml(text, path, SECTIONS) != parse_toml(assembled.config(), path, SECTIONS)


def schedule_note(run: RunDirectory, checkpoint: Checkpoint, assembled: Assembled) -> str | None:
    """What a change of steps does to the schedule; None if they are as before."""
    now, width = assembled.options.training, assembled.options.model.d_model
    saved = saved_options(run, checkpoint)["training"]
    names = ("steps", "schedule", "warmup_steps", "learning_rate")
    then = replace(now, **{name: saved[name] for name in names if name in saved})
    if then.steps == now.steps:
        return None
    note = f"note: the run goes on to step {now.steps} instead of {then.steps}"
    first = checkpoint.step + 1
    before, after = (options.make_schedule(width)(first) for options in (then, now))
    other = f" instead of {before:.2e}" if after != before else ""
    return f"{note}; by the schedule {now.schedule} the rate of step {first} is {after:.2e}{other}"


def tidy(run: RunDirectory, assembled: Assembled) -> None:
    """Write files that are missing or changed, and remove leftovers of killed processes.

    The caller holds the run's lock and has checked that the run can resume. Raises OutputError or CheckpointError.
    """
    for folder in (run.path, run.checkpoints):
        remove_leftovers(folder)
    write_run(run, assembled)
    prune(run.checkpoints, assembled.options.training.keep_last)


def saved_options(run: RunDirectory, checkpoint: Checkpoint | None) -> dict[str, dict[str, Any]]:
    """The options of the checkpoint; those of config.toml for one that has none, and without a checkpoint."""
    if checkpoint is None or (text := checkpoint.state.get("config")) is None:
        return read_toml(run.config_path, SECTIONS)
    return parse_toml(text, checkpoint.path, SECTIONS)


def _expect_options(run: RunDirectory, checkpoint: Checkpoint, saved: Sections, wanted: Sections) -> None:
    """Raise ConfigError unless config.toml is missing or holds the saved options or the wanted ones."""
    path = run.config_path
    if not path.exists():
        return
    again = f"npformer train --resume {shell_words(run.path)}"
    anew = f"move the file away, and it is written anew from {checkpoint.path.name}: {_move(path)}"
    try:
        in_file = read_toml(path, SECTIONS)
    except ConfigError as error:
        raise ConfigError(f"{error}. Mend it, or {anew}; {again}") from error
    if in_file in (saved, wanted):
        return
    then, now = _flat(saved), _flat(in_file)
    differ = [name for name in {**then, **now} if then.get(name) != now.get(name) or (name in then) != (name in now)]
    told = first_five([f"{name} was {_word(then, name)} and is {_word(now, name)}" for name in differ])
    way_out = f"M{anew[1:]}"  # for a file that was cut, and where another value cannot be
    if not any(name not in now or _is_fixed(name) for name in differ):
        changed = [word for name in differ for word in ("--set", f"{name}={_word(now, name)}")]
        way_out = f"To go on with these, name them: {again} {shell_words(*changed)}. Else {anew}"
    raise ConfigError(
        f"{path}: expected the options that {checkpoint.path.name} was saved with, got others: {told}. {way_out}; "
        f"{again}"
    )


def _is_fixed(name: str) -> bool:
    """Whether an option can be no other on resume."""
    section, _, key = name.partition(".")
    return name == "run.dtype" or key in FIXED or (section == "model" and name not in FREE)


def _expect_content(path: Path, content: bytes) -> None:
    try:
        in_file = read_regular(path)
    except FileNotFoundError:
        return  # it is rewritten
    except OSError as error:
        raise OutputError(f"{path}: expected to read it, got: {describe(error)}") from error
    if in_file != content:
        lines = zip([*in_file.split(b"\n"), b""], [*content.split(b"\n"), b""], strict=False)
        number = next((i for i, (one, other) in enumerate(lines, start=1) if one != other), 1)
        raise CheckpointError(
            f"{path}, line {number}: expected what the run's data gives, {len(content)} bytes, found another text of "
            f"{len(in_file)} bytes: it was cut or edited; move it away, and it is written anew: {_move(path)}"
        )


def _move(path: Path) -> str:
    return shell_words("mv", path, path.with_name(f"{path.name}-damaged"))


def _flat(sections: Sections) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, options in sections.items() for key, value in options.items()}


def _word(options: Mapping[str, Any], name: str) -> str:
    """An option's value in command-line form."""
    return in_shell(options.get(name, "missing"))
