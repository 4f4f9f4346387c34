"""The table of options is complete, says what is so, and is what the page of options shows."""

from __future__ import annotations

import dataclasses

import pytest

from npformer.training.config_file import parse_assignment
from npformer.training.option_table import BY_TASK, FROM_DATA, OF_DATA, defaults_of, differences, option_rows
from npformer.training.option_types import kinds_of
from npformer.training.options import SECTIONS
from npformer.training.tasks import ANSWERS, TASKS

EVERY_TASK = pytest.mark.parametrize("task", TASKS)


def test_every_option_has_a_row_and_a_meaning():
    rows = option_rows()
    assert [(row.section, row.name) for row in rows] == [
        (section, name) for section, options in SECTIONS.items() for name in kinds_of(options)
    ]
    assert all(len(row.meaning) > 8 and row.kind for row in rows)
    assert all("\n" not in row.meaning and row.meaning.isprintable() for row in rows)


@EVERY_TASK
def test_a_task_has_the_options_of_its_data_and_its_model(task):
    rows = option_rows(task)
    assert tuple(row.name for row in rows if row.section == "data") == tuple(
        name for name in kinds_of(SECTIONS["data"]) if name in TASKS[task].data
    )
    fields = {field.name for field in dataclasses.fields(ANSWERS[TASKS[task].kind].config)}
    assert {row.name for row in rows if row.section == "model"} == fields


@EVERY_TASK
def test_a_default_can_be_set_and_gives_the_same(task):
    """So it is written as one would type it."""
    options = defaults_of(task).sections()
    for row in option_rows(task):
        if row.name in OF_DATA:
            assert row.default == FROM_DATA
            continue
        text = row.default.partition(" (")[0]
        section, name, value = parse_assignment(f"{row.section}.{row.name}={text}", SECTIONS)
        expected = getattr(options[section], name)
        assert value == (pytest.approx(expected) if isinstance(expected, float) else expected), row


def test_what_follows_from_the_steps_is_told_for_a_task():
    rows = {row.name: row.default for row in option_rows("reverse")}
    every = defaults_of("reverse").training.every
    assert [rows[name] for name in ("log_every", "eval_every", "save_every")] == [
        f"none ({number})" for number in (every.log, every.evaluate, every.save)
    ]


def test_what_differs_between_tasks_is_told_for_each():
    varied = {(row.section, row.name) for row in option_rows() if row.default == BY_TASK}
    assert ("training", "steps") in varied
    assert not {("training", "beta1"), ("training", "log_every"), ("data", "symbols")} & varied
    for task, rows in differences().items():
        assert {(row.section, row.name) for row in rows} <= varied - {("run", "task")}
        assert {row.name: row.default for row in rows}["steps"] == str(defaults_of(task).training.steps)


def test_no_name_is_in_two_sections():
    """The page says that a name alone is enough."""
    names = [row.name for row in option_rows()]
    assert len(names) == len(set(names))
