"""A learner's files, which learner.toml holds, and their grades."""

import tomllib
from pathlib import Path

import pytest

from npformer.lab.grader import EXERCISES, Limits, find, grade_file, report
from npformer.lab.grader.templates import pair_source, template

FILES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def each(names, table):
    """A test for each entry of a table, which is named by its key."""
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())


each_exercise = each("exercise", {exercise.name: exercise for exercise in EXERCISES})


def graded(folder, text, name="mine", seconds=120.0):
    """The grade of a file with one exercise."""
    path = folder / f"{name}.py"
    path.write_text(text)
    (found,) = grade_file(path, limits=Limits(seconds))
    return found


def said(found, level=1):
    """The report on a grade, in one line."""
    return " ".join(report.report(found, level, "npformer grade mine.py").split())


def right(name):
    """The file of an exercise as this learner leaves it."""
    if name not in FILES["right"]:
        return pair_source(find(name))
    begins, text = FILES["right"][name].partition("(")[0], FILES["right"][name]
    return template(find(name)).partition(f"{begins}(")[0] + text


def answered(name, folder):
    """Its path, in a folder."""
    path = folder / f"{name}.py"
    path.write_text(right(name))
    return path
