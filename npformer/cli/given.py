"""The options of a run, as a command gives them (by a file, by --set, by spellings of their own) and tells them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from npformer.errors import ConfigError
from npformer.io.printable import shell_words
from npformer.io.terminal import fill
from npformer.run.config_file import parse_assignment, read_toml
from npformer.run.options import SECTIONS, option_rows
from npformer.run.tasks import TASKS

#: The slots of a run for several processes, unless its options say how many.
SLOTS = 8
#: Options that have a spelling of their own, by the parser's names, and the words that differ from these.
SHORT = {"task": "run.task", "data": "data.file", "seed": "run.seed", "device": "run.device", "slots": "training.slots",
         "precision": "run.precision", "init_from": "run.init_from", "log_to": "run.log_to"}  # fmt: skip
SPELLED = {"task": "TASK", "init_from": "--from"}


def options_from_args(args: argparse.Namespace, in_slots: bool = False) -> dict[str, dict[str, Any]]:
    """All options given, by section: the file's, then --set, then the short spellings.

    in_slots: for several processes, which need slots.
    """
    sections: dict[str, dict[str, Any]] = read_toml(args.config, SECTIONS) if args.config else changes_of(())
    for section, options in changes_of([*args.set, *_spelled(args, *SHORT)]).items():
        sections[section] |= options
    if in_slots:
        sections["training"].setdefault("slots", SLOTS)
    _make_absolute(sections)
    if "task" not in sections["run"]:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)} (or --resume RUN), got none")
    return sections


def changes_on_resume(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The options of --set and --log-to. Raises ConfigError for others beside --resume, which a run keeps."""
    if clash := [SPELLED.get(name, f"--{name}") for name in (*SHORT, "config", "out")
                 if name != "log_to" and getattr(args, name) is not None]:  # fmt: skip
        raise ConfigError(
            f"--resume: expected no other options, since a run keeps its options, got {', '.join(clash)}; "
            f"leave them out: {shell_words('npformer', 'train', '--resume', args.resume)}; change single options by "
            "--set section.key=value, or start a new run"
        )
    return changes_of([*args.set, *_spelled(args, "log_to")])


def _spelled(args: argparse.Namespace, *names: str) -> list[str]:
    return [f"{SHORT[name]}={getattr(args, name)}" for name in names if getattr(args, name) is not None]


def changes_of(assignments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The options of --set, by section."""
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for assignment in assignments:
        section, key, value = parse_assignment(assignment, SECTIONS)
        sections[section][key] = value
    _make_absolute(sections)
    return sections


def _make_absolute(sections: dict[str, dict[str, Any]]) -> None:
    """Make paths absolute, so that the run can be resumed or repeated from any folder."""
    for section, name in (("data", "file"), ("run", "init_from")):
        if sections[section].get(name) is not None:
            sections[section][name] = os.path.abspath(sections[section][name])


def options_text(task: str | None, as_json: bool) -> str:
    """The options of a task, or of all tasks."""
    rows = option_rows(task)
    if as_json:
        return json.dumps({"task": task, "options": [row._asdict() for row in rows]})
    name, default, kind = (
        max(map(len, cells)) for cells in zip(*((row.name, row.default, row.kind) for row in rows), strict=True)
    )
    lines: list[str] = []
    for section in SECTIONS:
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        lines += [
            f"  {row.name:<{name}}  {row.default:<{default}}  {row.kind:<{kind}}  {row.meaning}"
            for row in rows if row.section == section
        ]  # fmt: skip
    return "\n".join([*lines, "", fill("Set an option by --set NAME=VALUE, several by --config FILE (TOML).")])
