"""The harness: contenders take turns, one at a time, and the ratio shows which one is fast."""

import itertools
import os
from types import SimpleNamespace

import pytest

from benchmarks import compare, turns
from benchmarks.turns import Budget, ContenderError, Entry, contenders, take_turns

SLEEPERS = "tests.benchmarks.sleepers"
FAST, SLOW = 0.004, 0.08
ENTRIES = [
    Entry("fast", f"{SLEEPERS}:sleeper", {"seconds": FAST}),
    Entry("torch-slow", f"{SLEEPERS}:sleeper", {"seconds": SLOW}),
    Entry("torch-slower", f"{SLEEPERS}:sleeper", {"seconds": 2 * SLOW}),
]
SHORT = Budget(seconds=0.1, turn=0.1)


def test_the_fast_one_is_found_to_be_fast_and_no_two_work_at_once(monkeypatch):
    each_reading_adds_a_second = SimpleNamespace(perf_counter=itertools.count(1.0).__next__, sleep=lambda seconds: None)
    monkeypatch.setattr(turns, "time", each_reading_adds_a_second)
    with contenders(ENTRIES, os.environ) as children:
        measured = take_turns(children, "nap", SHORT)
        rows = compare.rows(children, measured)
    assert [row["name"] for row in rows] == ["fast", "torch-slow", "torch-slower"]
    assert [row["rounds"] for row in rows] == [5, 5, 5], "at least five, however short the time"
    assert [row["steps"] for row in rows] == [5 * 25, 5, 5], "as many steps in a turn as fit, at least one"
    assert [row[name] for row in rows for name in ("best", "median")] == pytest.approx(
        [FAST] * 2 + [SLOW] * 2 + [2 * SLOW] * 2
    )
    assert compare.best_peer(measured) == "torch-slow"
    assert [row["times_as_fast"]["median"] for row in rows] == pytest.approx([20, 1, 0.5])
    naps = sorted(value for each in measured.values() for value in each.values)
    assert len(naps) == sum(row["steps"] for row in rows) + 3 * SHORT.warm_up
    assert all(ended <= begun for (_, ended), (begun, _) in itertools.pairwise(naps)), "two worked at the same time"


def test_the_order_turns_around():
    with contenders(ENTRIES[:2], os.environ) as children:
        measured = take_turns(children, "nap", SHORT._replace(rounds=2, turn=0.001))
    naps = sorted((value, name) for name, each in measured.items() for value in each.values[-2:])
    assert [name for _, name in naps] == ["fast", "torch-slow", "torch-slow", "fast"]


def test_rounds_bound_from_above_and_a_missing_task_is_left_out():
    entries = [ENTRIES[0], Entry("other", f"{SLEEPERS}:hog", {"megabytes": 1})]
    with contenders(entries, os.environ) as children:
        assert take_turns(children, "no such task", SHORT) == {}
        measured = take_turns(children, "nap", Budget(seconds=60, rounds=2, turn=0.01))
    assert {name: len(each.rounds) for name, each in measured.items()} == {"fast": 2, "other": 2}
    assert children[0].facts == {"seconds": FAST}


def test_memory_is_counted_without_what_imports_take():
    with contenders([Entry("hog", f"{SLEEPERS}:hog", {"megabytes": 200})], os.environ) as (child,):
        before = child.memory()
        child.run("nap", 1)
        after = child.memory()
    assert before["imports"] > 5e6
    assert before["peak"] - before["imports"] < 30e6
    assert after["imports"] == before["imports"]
    assert 190e6 < after["peak"] - after["imports"] < 500e6


def test_a_contender_that_ends_is_reported_with_its_output():
    with (
        contenders([Entry("crasher", f"{SLEEPERS}:crasher")], os.environ) as children,
        pytest.raises(ContenderError, match=r"crasher: expected an answer, it ended with code 7:\n +the reason why"),
    ):
        take_turns(children, "nap", SHORT)


def test_a_contender_that_does_not_start_ends_the_others():
    with (
        pytest.raises(ContenderError, match=r"(?s)broken: .* code 1:.*No module named 'no_such_module'"),
        contenders([ENTRIES[0], Entry("broken", "no_such_module:nothing")], os.environ),
    ):
        pytest.fail("expected no contenders")


def test_all_processes_have_ended_afterwards():
    with contenders(ENTRIES[:1], os.environ) as (child,):
        assert child._process.poll() is None
    assert child._process.poll() is not None


def test_times_and_rounds_of_a_summary():
    times = compare.times([[3.0, 1.0], [2.0], [10.0]])
    assert times == (2.5, 1.0, 3, 4)
    with pytest.raises(ValueError, match="rounds: expected at least one"):
        compare.times([])


def test_a_ratio_compares_rounds_that_took_turns():
    ours = [[1.0], [10.0, 10.0], [2.0], [4.0], [1.0, 3.0, 2.0]]  # the machine was slow in the second round
    theirs = [[2.0], [20.0], [6.0, 6.0], [8.0], [8.0]]
    assert compare.ratio(ours, theirs) == (2.0, 2.0, 3.0)
    assert compare.ratio([[2.0]], [[1.0]]) == (0.5, 0.5, 0.5)
    assert compare.ratio([[1.0]] * 4, [[4.0], [1.0], [3.0], [2.0]]) == (2.5, 1.75, 3.25), "interpolated"
    with pytest.raises(ValueError, match="zip"):
        compare.ratio(ours, theirs[:-1])
