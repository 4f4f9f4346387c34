"""Every option of a run with its type, its default and its meaning, made from the dataclasses that hold them."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from npformer.run.config_file import FOLLOW, NONE, bare_kind, in_shell, kinds_of, meanings_of
from npformer.run.options import SECTIONS, Options, complete
from npformer.run.tasks import ANSWERS, TASKS

#: Options that follow from the data, and so have no default.
OF_DATA = ("max_seq_len",)
FROM_DATA, BY_TASK = "from the data", "by task"
FEW = 6  # names that a table lists


class OptionRow(NamedTuple):
    """An option. default: as in a shell, or where it comes from."""

    section: str
    name: str
    kind: str
    default: str
    meaning: str


def option_rows(task: str | None = None) -> list[OptionRow]:
    """The options of a task, with its defaults; without a task, those of all tasks, "by task" where defaults differ.

    A default of none that follows from the steps of the task stands behind it: "none (10)".
    """
    if task is not None:
        follows = defaults_of(task).training.every
        resolved = {"log_every": follows.log, "eval_every": follows.evaluate, "save_every": follows.save}
        return [
            row._replace(default=f"{row.default} ({resolved[row.name]})") if row.name in resolved else row
            for row in _rows(task)
        ]
    every = [row for name in TASKS for row in _rows(name)]
    rows = []
    for section, options in SECTIONS.items():
        for name in kinds_of(options):
            one, *others = {row for row in every if (row.section, row.name) == (section, name)}
            rows.append(one._replace(default=BY_TASK) if others else one)
    return rows


def _rows(task: str) -> list[OptionRow]:
    sections = defaults_of(task).sections()
    rows = []
    for section, options in sections.items():
        meanings = meanings_of(type(options))
        for name, kind in kinds_of(type(options)).items():
            if name not in FOLLOW and (section != "data" or name in TASKS[task].data):
                value = getattr(options, name)
                default = f"{value:g}" if isinstance(value, float) else in_shell(value)
                default = FROM_DATA if name in OF_DATA else default
                rows.append(OptionRow(section, name, kind_in_words(kind), default, meanings[name]))
    return rows


def defaults_of(task: str) -> Options:
    """The options of a run of a task to which none was given; sizes that follow from the data are those of any data."""
    classes = 2 if ANSWERS[TASKS[task].kind].head in ("sequence", "tokens") else 0
    return complete({section: {"task": task} if section == "run" else {} for section in SECTIONS}, 2, 2, classes)


def kind_in_words(kind: Any) -> str:
    """An annotation in the words of a table: its values, or "whole number", "number", "text", "true, false"."""
    bare, is_optional = bare_kind(kind)
    values = get_args(bare)
    if values:
        words = ", ".join(values) if len(values) <= FEW else f"one of {len(values)} names"
    else:
        words = {bool: "true, false", int: "whole number", float: "number", str: "text"}[bare]
    return f"{words} or {NONE}" if is_optional else words
