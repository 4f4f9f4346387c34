"""The list of bugs that show in a regime alone: 40 of them, right at normal inputs as their twins are."""

import json
import re

import numpy as np
import pytest

import npformer as npf
from benchmarks import page_tables
from benchmarks.foreign.listed import RIGHT
from benchmarks.measured import RESULTS
from benchmarks.regimes import __main__ as command
from benchmarks.regimes.listed import BUGS, NOT_RIGHT
from benchmarks.regimes.score import judged, listed, summary


def test_the_list():
    assert len({bug.name for bug in BUGS}) == 40
    reports = [bug.report for bug in BUGS if bug.report]
    assert len(set(reports)) >= 15
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in reports)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_and_twin_are_right_at_normal_inputs(bug):
    for backward in (bug.backward, bug.wrong):
        assert bug.judged(backward, explain=False).ok


def test_what_is_stored():
    stored = json.loads((RESULTS / "regimes.json").read_text(encoding="utf-8"))
    assert [(row["kind"], row["name"]) for row in stored["results"]] == [case[:2] for case in listed()]
    assert stored["summary"] == summary(stored["results"])
    found = stored["summary"]
    assert found["bug"]["called_wrong"] >= 36
    assert found["twin"]["called_wrong"] == found["foreign"]["called_wrong"] == 0
    right = [found[kind] for kind in ("twin", "foreign")]
    assert sum(kind["cannot_tell"] for kind in right) <= 0.05 * sum(kind["points"] for kind in right)


@pytest.mark.parametrize("name", NOT_RIGHT)
def test_a_foreign_pair_that_is_not_right_there(name):
    """Its gradient is another, or none, at a point where the forward is finite."""
    (pair,) = (each for each in RIGHT if each.name == name)
    for regime in NOT_RIGHT[name]:
        how = {"sizes": (1,)} if regime == "sizes" else {"regimes": (regime,), "sizes": ()}
        how |= {"explain": False, **pair.check, **pair.options}
        with np.errstate(all="ignore"):
            report = npf.gradcheck((pair.forward, pair.backward), *pair.inputs, **how)
        assert any(tried.failed for tried in report.regimes)


def test_a_row_and_the_counts():
    number = next(i for i, (kind, name, _) in enumerate(listed()) if (kind, name) == ("foreign", "cumprod"))
    row = judged(number)
    assert row["wrong"] == []
    assert row["not_right"] == ["zeros, x: divides by x, so it is not finite where x is 0"]
    counts = summary([row | {"verdicts": {"right": 7, "CANNOT TELL": 2, "KINK HERE": 3, "not tried": 4}}])["foreign"]
    assert counts == {
        "pairs": 1, "called_wrong": 0, "not_right": 1, "points": 9, "cannot_tell": 2, "kinks": 3, "not_tried": 4,
    }  # fmt: skip


def test_the_command(tmp_path, capsys):
    saved = tmp_path / "regimes.json"
    assert command.main(["--only", "mean pooling", "--save", str(saved)]) == 0
    assert "called wrong" in capsys.readouterr().out
    document = json.loads(saved.read_text())
    assert [row["kind"] for row in document["results"]] == ["bug", "twin"]
    assert document["summary"]["bug"]["called_wrong"] == 1
    assert document["summary"]["twin"]["called_wrong"] == 0
    assert "| bugs that show in a regime alone | 1 | 1 |" in page_tables.regimes([document | {"file": "regimes.json"}])
    assert command.main(["--only", "no such"]) == 2
