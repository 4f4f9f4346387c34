"""The table of docs/coverage.md is true: its files and tests exist, its commands are understood."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

from npformer.functional import OPERATIONS
from tests.markdown import ROOT, text_of

TEXT = text_of("docs/coverage.md")


class Row(NamedTuple):
    part: str
    file: str
    check: str
    command: str


def rows():
    """Every row of every table, marks stripped."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|") and not line.startswith(("| part", "|---"))]
    return [Row(*(cell.strip().strip("`") for cell in line.strip("|").split("|"))) for line in lines]


EVERY_ROW = pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.part} ({row.check.rpartition('/')[2]})")


@EVERY_ROW
def test_the_file_and_the_check_exist(row):
    assert (ROOT / row.file).is_file(), row.file
    assert row.command.startswith(("npformer ", "python -m ")), row.command  # test_readme.py reads the rest of it
    file, _, name = row.check.partition("::")
    assert (ROOT / file).is_file(), file
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert (name or next(test for test in functions if test.startswith("test_"))) in functions


def test_every_operation_is_in_it():
    """By its own file, or by that of the composite or the layer that it is for."""
    named = {Path(row.file).stem for row in rows()}
    elsewhere = {"relu": "feed_forward", "biased_attention": "relative_bias"}
    homes = {op: elsewhere.get(op) or row.forward.__module__.rpartition(".")[2] for op, row in OPERATIONS.items()}
    assert not {op for op, home in homes.items() if home not in named}
