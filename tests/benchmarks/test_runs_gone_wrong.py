"""What the lists of runs gone wrong promise: known labels, and mistakes that cost a tenth of the loss at the least."""

import json

import pytest

from benchmarks.measured import RESULTS
from benchmarks.runs_gone_wrong import LIST, listed, rows
from npformer.see.explain.run import BUDGET


@pytest.mark.parametrize("name", [LIST, f"{LIST}_blind"])
def test_each_mistake_has_a_known_label_and_costs_a_tenth(name):
    causes = {run: row["cause"] for run, row in rows(name).items() if "cause" in row}
    assert set(causes.values()) <= listed(LIST)["labels"].keys()
    found = json.loads((RESULTS / f"{name.replace('_', '-')}.json").read_text())["results"]
    costs = {row["run"]: row["worse"] or 2 for row in found if "worse" in row}  # None: it diverged
    assert costs.keys() == causes.keys()
    assert min(costs.values()) >= 1.1


def test_what_explain_says_of_them():
    """At least 48 of the 60 mistakes are named first, and at most one of the 30 sound runs is accused."""
    found = json.loads((RESULTS / "runs-explained.json").read_text())["results"]
    assert [(row["run"], row["cause"]) for row in found] == [(run, row.get("cause")) for run, row in rows().items()]
    assert sum(row["right"] for row in found if row["cause"]) >= 48
    assert sum(not row["right"] for row in found if not row["cause"]) <= 1
    assert max(row["made_again"] for row in found) <= BUDGET
