"""The options of a run, as a command gives them (by a file, by --set, by spellings of their own) and tells them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from npformer.errors import ConfigError
from npformer.io.terminal import fill
from npformer.run.config_file import parse_assignment, read_toml
from npformer.run.option_table import option_rows
from npformer.run.options import SECTIONS
from npformer.run.tasks import TASKS

#: The slots of a run for several processes, unless its options say how many.
SLOTS = 8


def options_from_args(args: argparse.Namespace, in_slots: bool = False) -> dict[str, dict[str, Any]]:
    """All options given, by section: the file's, then --set, then the short spellings.

    in_slots: for several processes, which need slots.
    """
    sections: dict[str, dict[str, Any]] = read_toml(args.config, SECTIONS) if args.config else changes_of(())
    changes = changes_of(args.set)
    if args.data is not None or "file" in changes["data"]:
        sections["data"].pop("sha256", None)  # of the file that --config names
    for section, options in changes.items():
        sections[section] |= options
    names = ("task", "seed", "device", "precision", "init_from")
    short = {name: getattr(args, name) for name in names}
    sections["run"] |= {key: value for key, value in short.items() if value is not None}
    sections["training"] |= {} if args.slots is None else {"slots": args.slots}
    if in_slots:
        sections["training"].setdefault("slots", SLOTS)
    if args.data is not None:
        sections["data"]["file"] = args.data
    _make_absolute(sections)
    if "task" not in sections["run"]:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)} (or --resume RUN), got none")
    return sections


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


def refuse_other_options(args: argparse.Namespace) -> None:
    """Raise ConfigError for options beside --resume that a run keeps."""
    fixed = {"TASK": args.task, "--data": args.data, "--config": args.config, "--seed": args.seed,
             "--out": args.out, "--from": args.init_from, "--device": args.device,
             "--precision": args.precision, "--slots": args.slots}  # fmt: skip
    clash = [name for name, value in fixed.items() if value is not None]
    if clash:
        raise ConfigError(
            f"--resume: expected no other options, since a run keeps its options, got {', '.join(clash)}; "
            "leave them out, change single options by --set section.key=value, or start a new run"
        )


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
