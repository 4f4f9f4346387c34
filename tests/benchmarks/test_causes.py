"""The score of causes: what is stored, and how it is counted."""

import json

from benchmarks import causes as command
from benchmarks import page_tables
from benchmarks.causes import KINDS, LEAST_NAMED, MOST_ACCUSED, PLANT, SEEDS, SOUND_RUNS
from benchmarks.measured import RESULTS
from npformer.see.explain.change import LOOKS


def stored():
    """The committed score."""
    return json.loads((RESULTS / "causes.json").read_text(encoding="utf-8"))


def test_each_kind_is_planted_and_can_be_named():
    assert set(KINDS) == set(LOOKS) == {*PLANT, "warm-up"}


def test_what_is_stored():
    found = stored()
    steps = [(row["planted"], row["seed"]) for row in found["results"]]
    planted = [(kind, seed) for seed in SEEDS for kind in KINDS]
    assert steps == planted + [("sound", number) for number in range(SOUND_RUNS)]
    assert found["summary"] == command.summary(found["results"])
    assert sum(counts["first"] for counts in found["summary"]["planted"].values()) >= LEAST_NAMED
    assert found["summary"]["accused"] <= MOST_ACCUSED


def test_counts():
    rows = [
        {"planted": "norm", "seed": 0, "named": ["norm", "rate"]},
        {"planted": "norm", "seed": 1, "named": ["rate", "norm"]},
        {"planted": "sound", "seed": 0, "named": ["labels"]},
        {"planted": "sound", "seed": 1, "named": []},
    ]
    found = command.summary(rows)
    assert found["planted"]["norm"] == {"steps": 2, "first": 1, "named": 2}
    assert (found["sound"], found["accused"]) == (2, 1)


def test_the_table():
    assert "python -m benchmarks.causes --save" in page_tables.causes([])
