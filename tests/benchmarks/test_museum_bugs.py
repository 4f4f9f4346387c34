"""The figures of the museum's gallery: what is kept of a training, and of what the checks say."""

from __future__ import annotations

import json
import math

from benchmarks import museum_bugs
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.demonstration import Comparison, Course
from npformer.lab.museum.detections import Detections


def test_losses_are_thinned_out_and_what_is_no_number_is_null():
    losses = (1.0, 2.0, 3.0, 4.0, 5.0, 6.123456, math.nan, 8.0, 9.0, 10.0, 0.00123456)
    kept = museum_bugs.course(Course(losses, 0.5))
    assert kept["losses"] == [3.0, None, 0.001235]
    assert kept["said"].endswith("50 % of held-out words right")


def test_equal_right_trainings_are_kept_once(monkeypatch, tmp_path, capsys):
    shown = ["softmax-diagonal", "softmax-no-shared", "softmax-overflow"]  # the last cannot be seen in training
    trained = []

    def compare(one, steps):
        trained.append(one.id)
        return Comparison(Course((2.0, 1.0), 1.0), Course((2.0, math.inf), 0.0, "stops"))

    monkeypatch.setattr(museum_bugs, "BUGS", [bug(name) for name in shown])
    monkeypatch.setattr(museum_bugs, "compare", compare)
    monkeypatch.setattr(museum_bugs, "examine", lambda one: Detections(one, 7, {"a check": "it says"}, "why"))
    place = tmp_path / "found.json"
    assert museum_bugs.main(["--steps", "2", "--save", str(place)]) == 0
    found = json.loads(place.read_text(encoding="utf-8"))
    assert [row["id"] for row in found["results"]] == shown
    assert trained == shown[:2]
    assert list(found["right"]) == ["[]"]
    assert [row.get("wrong", {}).get("losses") for row in found["results"]] == [[None], [None], None]
    assert capsys.readouterr().out.endswith("bugs: 3; survivors: none\n")


def test_a_survivor_is_named(monkeypatch, capsys):
    monkeypatch.setattr(museum_bugs, "examine", lambda one: Detections(one, 7, {}, ""))
    assert museum_bugs.main(["--only", "softmax-overflow"]) == 1
    assert "survivors: softmax-overflow" in capsys.readouterr().out
