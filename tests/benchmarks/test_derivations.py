"""The score of derivations: what is stored, and how it is counted."""

import json

from benchmarks import derivations, page_tables
from benchmarks.measured import RESULTS

#: Of 30 wrong derivations, those whose first wrong line must be named.
LEAST_NAMED = 27


def test_what_is_stored():
    stored = json.loads((RESULTS / "derivations.json").read_text(encoding="utf-8"))
    rows = [(row["list"], row["name"], row["wrong"]) for row in stored["results"]]
    assert rows == [(which, name, wrong) for which in derivations.LISTS for name, _, wrong in derivations.listed(which)]
    assert stored["summary"] == derivations.summary(stored["results"])
    named, right = (
        sum(stored["summary"][f"{when}_{kind}"][column] for when in ("first", "later"))
        for kind, column in (("wrong", "as marked"), ("right", "accused"))
    )
    assert named >= LEAST_NAMED
    assert right == 0


def test_counts():
    rows = [
        {"list": "later_wrong", "name": "a", "wrong": 3, "named": 3},
        {"list": "later_wrong", "name": "b", "wrong": 3, "named": 4},
        {"list": "later_wrong", "name": "c", "wrong": 3, "named": None},
        {"list": "first_right", "name": "d", "wrong": None, "named": 2},
    ]
    found = derivations.summary(rows)
    assert found["later_wrong"] == {"derivations": 3, "as marked": 1, "accused": 1}
    assert found["first_right"] == {"derivations": 1, "as marked": 0, "accused": 1}
    assert "b: wrong line 3, named 4" in derivations.text(rows)


def test_a_derivation_is_judged(call):
    document = call(derivations.main, "--only loss_off_by_two --json").fine().document
    (row,) = document["results"]
    assert (row["list"], row["wrong"], row["named"]) == ("first_wrong", 6, 6)
    assert call(derivations.main, "--only nothing_such").code == 2


def test_the_table():
    assert "python -m benchmarks.derivations --save" in page_tables.derivations([])
