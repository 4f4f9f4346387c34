"""The benchmark of gradcheck's time: its cases give the expected reports, whatever their times."""

import json

import numpy as np
import pytest

from benchmarks import gradcheck_time as timing


@pytest.mark.parametrize(("case", "target"), [("first", "sine"), ("ordinary", "layer_norm")])
def test_a_case_in_a_process_of_its_own(case, target):
    result = timing.measured(case, target, 1)
    assert result["as_expected"], result["report"]
    assert len(result["seconds"]) == 1
    assert json.loads(json.dumps(result)) == result


def test_a_region_is_wrong_and_nothing_else(capsys):
    gradient = np.ones((1000, 1000))
    wrong = timing.spoiled(gradient, "region") != gradient
    assert wrong.sum() == 40 * 100
    assert wrong[300:340, 500:600].all()
    assert timing.spoiled(gradient, "million") is gradient
    timing.child("region", "softmax")
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]


def a_result(**changes):
    made = {"case": "region", "target": "softmax", "limit_s": 3.0, "middle_s": 1.0, "fastest_s": 0.9, "within": True,
            "as_expected": True, "report": "the table"}  # fmt: skip
    return made | changes


def test_the_document_the_file_and_the_exit_code(monkeypatch, call, tmp_path):
    changes = {}
    monkeypatch.setattr(timing, "measured", lambda case, target, rounds: a_result(case=case, **changes))
    path = tmp_path / "found.json"
    assert call(timing.main, "--json --save", path).fine().document == json.loads(path.read_text())
    for name in ("within", "as_expected"):
        changes.clear()
        changes[name] = False
        ended = call(timing.main, "--only region")
        assert ended.code == 1
