"""Resumes a run with the options of its checkpoint, repairs its files, and removes leftovers of killed processes.

Each checkpoint holds the text of config.toml. So a config.toml that was cut or edited is noticed and can be written
again. ``--set`` changes an option on purpose (``--resume RUN --set learning_rate=0.001``).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npformer.atomic import describe, read_regular, remove_leftovers
from npformer.errors import CheckpointError, ConfigError, DataError, OutputError
from npformer.training.assemble import Assembled, assemble, write_file
from npformer.training.checkpoint import Checkpoint, prune
from npformer.training.config_file import parse_toml, read_toml
from npformer.training.option_types import NONE
from npformer.training.options import SECTIONS
from npformer.training.run_directory import RunDirectory
from npformer.training.tasks import Sections

MOST_NAMED = 5  # the most differing options in a message


def assemble_again(run: RunDirectory, checkpoint: Checkpoint, changes: Sections) -> Assembled:
    """The run's parts, with the options of the checkpoint and these changes, by section and key. Nothing is written.

    Raises ConfigError if config.toml differs, CheckpointError if the data, vocabulary.txt or classes.txt differ,
    DataError if the data's file is missing.
    """
    saved = _saved_options(run, checkpoint)
    wanted = {section: saved[section] | dict(changes.get(section, {})) for section in saved}
    _expect_options(run, checkpoint, saved, wanted)
    try:
        assembled = assemble(wanted, checkpoint)
    except DataError as error:
        place = shlex.join(["npformer", "train", "--resume", str(run.path), "--set", "data.file=PLACE"])
        raise DataError(
            f"{error}. The run's data file is named in {run.config_path}, [data] file: put it back, or give its "
            f"new path: {place}"
        ) from error
    for path, content in assembled.word_lists(run).items():
        _expect_content(path, content)
    return assembled


def tidy(run: RunDirectory, assembled: Assembled) -> None:
    """Write files that are missing or changed, and remove leftovers of killed processes.

    The caller holds the run's lock and has checked that the run can resume. Raises OutputError or CheckpointError.
    """
    for folder in (run.path, run.checkpoints):
        remove_leftovers(folder)
    if not run.config_path.exists() or _plain(read_toml(run.config_path, SECTIONS)) != _plain(
        parse_toml(assembled.config(), run.config_path, SECTIONS)
    ):
        write_file(run.config_path, assembled.config().encode())
    for path, content in assembled.word_lists(run).items():
        if not path.exists():
            write_file(path, content)
    prune(run.checkpoints, assembled.options.training.keep_last)


def _saved_options(run: RunDirectory, checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """The options of the checkpoint; those of config.toml for a checkpoint that has none."""
    text = checkpoint.state.get("config")
    return read_toml(run.config_path, SECTIONS) if text is None else parse_toml(text, checkpoint.path, SECTIONS)


def _expect_options(run: RunDirectory, checkpoint: Checkpoint, saved: Sections, wanted: Sections) -> None:
    """Raise ConfigError unless config.toml is missing or holds the saved options or the wanted ones."""
    path = run.config_path
    if not path.exists():
        return
    again = f"npformer train --resume {shlex.quote(str(run.path))}"
    anew = f"move the file away, and it is written anew from {checkpoint.path.name}: {_move(path)}"
    try:
        found = read_toml(path, SECTIONS)
    except ConfigError as error:
        raise ConfigError(f"{error}. Mend it, or {anew}; {again}") from error
    if _plain(found) in (_plain(saved), _plain(wanted)):
        return
    then, now = _flat(saved), _flat(found)
    differ = [name for name in {**then, **now} if then.get(name) != now.get(name) or (name in then) != (name in now)]
    told = "; ".join(f"{name} was {_word(then, name)} and is {_word(now, name)}" for name in differ[:MOST_NAMED])
    more = f"; and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
    if any(name not in now for name in differ):
        what, way_out = "a file that was cut, or lines of it deleted", f"M{anew[1:]}"
    else:
        changed = [word for name in differ for word in ("--set", f"{name}={_word(now, name)}")]
        what, way_out = "others", f"To go on with these, name them: {again} {shlex.join(changed)}. Else {anew}"
    raise ConfigError(
        f"{path}: expected the options that {checkpoint.path.name} was saved with, got {what}: {told}{more}. "
        f"{way_out}; {again}"
    )


def _expect_content(path: Path, content: bytes) -> None:
    try:
        found = read_regular(path)
    except FileNotFoundError:
        return  # it is rewritten
    except OSError as error:
        raise OutputError(f"{path}: expected to read it, got: {describe(error)}") from error
    if found != content:
        lines = zip([*found.split(b"\n"), b""], [*content.split(b"\n"), b""], strict=False)
        number = next((i for i, (one, other) in enumerate(lines, start=1) if one != other), 1)
        raise CheckpointError(
            f"{path}, line {number}: expected what the run's data gives, {len(content)} bytes, found another text of "
            f"{len(found)} bytes: it was cut or edited; move it away, and it is written anew: {_move(path)}"
        )


def _move(path: Path) -> str:
    return shlex.join(["mv", str(path), str(path.with_name(f"{path.name}-damaged"))])


def _plain(sections: Sections) -> dict[str, dict[str, Any]]:
    """The sections with options, for comparing two files."""
    return {section: dict(options) for section, options in sections.items() if options}


def _flat(sections: Sections) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, options in sections.items() for key, value in options.items()}


def _word(options: Mapping[str, Any], name: str) -> str:
    """An option's value in command-line form."""
    value = options.get(name, "missing")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return NONE if value is None else str(value)
