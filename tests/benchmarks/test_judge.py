"""The kernels by which the judge is scored, right and wrong, each with its reference; and what is stored of them."""

import ast
import json
import re

import pytest

from benchmarks.judge import __main__ as command
from benchmarks.judge.page import table
from benchmarks.judge.wrong import EDITS
from benchmarks.measured import RESULTS


def test_the_list(tmp_path):
    cases = command.listed(tmp_path)
    counts = {kind: [case for case in cases if case[:2] == kind] for kind in {case[:2] for case in cases}}
    assert {kind: len(found) for kind, found in counts.items()} == {
        (name, deserved): count
        for name, count in (("own", 50), ("blind", 50), ("third", 30))
        for deserved in ("right", "wrong")
    }
    for _, _, task in cases:
        text = task.path.read_text()
        assert re.search(r"--(float32|bfloat16)\.py$", task.path.name)
        assert ast.get_docstring(ast.parse(text)), task.path.name
    for deserved in ("right", "wrong"):
        assert {task.precision for _, kind, task in cases if kind == deserved} == {"float32", "bfloat16"}


def test_a_mistake_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match="expected 'no such text' once in its source, got it 0 times"):
        EDITS[0]._replace(old="no such text").source()


def test_what_is_stored(tmp_path):
    stored = json.loads((RESULTS / "judge.json").read_text(encoding="utf-8"))
    rows = stored["results"]
    listed = [(name, deserved, task.path.name) for name, deserved, task in command.listed(tmp_path)]
    assert [(row["list"], row["deserves"], row["kernel"]) for row in rows] == listed
    assert stored["summary"] == command.summary(rows)
    wrong = [row for row in rows if row["deserves"] == "wrong"]
    assert not [row["kernel"] for row in rows if row["deserves"] == "right" and row["verdict"] in command.FOUND]
    assert sum(row["verdict"] in command.FOUND for row in wrong) >= 0.98 * len(wrong)
    assert not any(counts["late"] for counts in stored["summary"].values())


def test_the_command(tmp_path, capsys):
    saved = tmp_path / "judge.json"
    assert command.main(["--only", "huber--not_clipped", "--save", str(saved)]) == 0
    assert "own wrong" in capsys.readouterr().out
    document = json.loads(saved.read_text())
    assert [row["verdict"] for row in document["results"]] == ["wrong"]
    assert "| the list: wrong | 1 | 0 | 1 | 0 | 0 | 0 |" in table([document | {"file": "judge.json"}])
    assert command.main(["--only", "no such"]) == 2


def test_a_row_that_is_misjudged_is_told():
    row = {"list": "own", "deserves": "right", "kernel": "a.py", "verdict": "wrong", "causes": ["why"], "seconds": 99.0}
    assert command.misjudged(row)
    assert command.text([row]).startswith("own right: a.py | wrong: why\n")
    assert command.summary([row])["own right"]["late"] == 1
    assert not command.misjudged(row | {"verdict": "cannot tell"})
