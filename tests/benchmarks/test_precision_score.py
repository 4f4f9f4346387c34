"""No kernel in low precision is misjudged, and the stored score is of these lists."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.precision import __main__ as command
from benchmarks.precision.__main__ import GROUPS, is_misjudged, judged, outcome, text, would_hide
from benchmarks.precision.kernel import BELOW, RIGHT, WRONG

ALL = [kernel for kernels in GROUPS.values() for kernel in kernels]
#: Wrong by rounding alone, and called right: a kernel that stores every result in float16 errs as much as the first;
#: the second loses some hundred roundings of float32, as right kernels do that keep the logarithm of a sum.
MISSED = {"mixture-unshifted", "logistic-bins"}
STORED = Path(__file__).parents[2] / "benchmarks" / "results" / "precision.json"


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_no_kernel_is_misjudged(kernel):
    """At a seed that no table counts."""
    verdict, report = outcome(kernel, 7)
    assert kernel.name in MISSED or not is_misjudged(kernel, verdict, report), report


def test_the_stored_score_is_of_these_lists_and_nothing_else_is_misjudged():
    pytest.importorskip("torch")
    rows = json.loads(STORED.read_text(encoding="utf-8"))["results"]
    assert {(row["name"], row["expected"]) for row in rows} == {(kernel.name, kernel.verdict) for kernel in ALL}
    assert {row["name"] for row in rows if row["misjudged"]} == MISSED
    verdicts = [verdict for row in rows for verdict in row["verdicts"]]
    assert verdicts.count("CANNOT TELL") <= 0.1 * len(verdicts)


def test_a_misjudged_kernel_is_counted():
    kernel = next(each for each in ALL if each.verdict == RIGHT and isinstance(each.target, tuple))
    verdict, report = outcome(kernel, 0)
    assert not is_misjudged(kernel, verdict, report)
    assert is_misjudged(replace(kernel, verdict=WRONG), verdict, report)
    assert is_misjudged(kernel, "WRONG", report)
    assert is_misjudged(kernel, "problem", report)
    assert not is_misjudged(kernel, "CANNOT TELL", report)
    assert not would_hide(replace(kernel, size=0.5), report)
    assert is_misjudged(replace(kernel, verdict=BELOW, size=0.5), verdict, report)
    assert not is_misjudged(replace(kernel, verdict=BELOW, size=1e-9), verdict, report)
    row = judged("listed", replace(kernel, verdict=WRONG))
    assert row["misjudged"] == [0, 1, 2, 3, 4]
    assert kernel.name in text([row])


def test_the_command(call, tmp_path):
    outcome = call(command.main, "--only 'weight-norm' --json --save", tmp_path / "found.json").fine()
    assert (tmp_path / "found.json").read_text(encoding="utf-8") == outcome.out
    assert [(row["name"], row["list"]) for row in outcome.document["results"]] == [("weight-norm", "blind")]
    assert call(command.main, "--only 'no such kernel'").code == 2
