"""Resumes a run with the options of its checkpoint, repairs its files, and removes leftovers of killed processes.

Each checkpoint holds the text of config.toml. So a config.toml that was cut or edited is noticed and can be written
again. ``--set`` changes an option on purpose (``--resume RUN --set learning_rate=0.001``), and lets a finished run go
on (``--resume RUN --set steps=720``).

No state of random numbers is restored, since there is none: masks and batches are functions of the seed and the step,
and ``Trainer.restore`` sets the step (``trainer.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npformer.errors import CheckpointError, ConfigError, DataError, OutputError
from npformer.io.atomic_files import describe, read_regular, remove_leftovers
from npformer.io.printable import shell_words
from npformer.run.assemble import Assembled, assemble, write_file
from npformer.run.checkpoint import Checkpoint, prune
from npformer.run.config_file import in_shell, parse_toml, read_toml
from npformer.run.directory import RunDirectory
from npformer.run.model_arrays import first_five
from npformer.run.options import SECTIONS
from npformer.run.tasks import Sections
from npformer.run.world import SINGLE, World

_PIECES = "the vocabulary would be another"
#: Options of data that cannot change, and why.
FIXED = {"held_out_fraction": "the run would be evaluated on examples that it has trained on", "symbols": _PIECES,
         "tokenizer": _PIECES, "max_pieces": _PIECES}  # fmt: skip
FREE = ("model.dropout", "model.recompute", "model.max_seq_len")  # options of a model that may change


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
    path, config = run.config_path, assembled.config()
    if not path.exists() or read_toml(path, SECTIONS) != parse_toml(config, path, SECTIONS):
        write_file(path, config.encode())
    for path, content in assembled.word_lists(run).items():
        if not path.exists():
            write_file(path, content)
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
