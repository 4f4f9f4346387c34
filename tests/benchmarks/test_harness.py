"""The harness: contenders take turns, one at a time, and the ratio shows which one is fast."""

import itertools
import os
from types import SimpleNamespace

import pytest

from benchmarks import harness, machine
from benchmarks.harness import Budget, Contender, ContenderError, Entry, Server, contenders, repeated, take_turns
from benchmarks.survivors import answers
from tests.benchmarks.sleepers import FakeTime

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
    monkeypatch.setattr(harness, "time", each_reading_adds_a_second)
    with contenders(ENTRIES, os.environ) as children:
        measured = take_turns(children, "nap", SHORT)
        rows = harness.rows(children, measured)
    assert [row["name"] for row in rows] == ["fast", "torch-slow", "torch-slower"]
    assert [row["rounds"] for row in rows] == [5, 5, 5], "at least five, however short the time"
    assert [row["steps"] for row in rows] == [5 * 25, 5, 5], "as many steps in a turn as fit, at least one"
    assert [row[name] for row in rows for name in ("best", "median")] == pytest.approx(
        [FAST] * 2 + [SLOW] * 2 + [2 * SLOW] * 2
    )
    assert harness.best_peer(measured) == "torch-slow"
    assert [row["times_as_fast"]["median"] for row in rows] == pytest.approx([20, 1, 0.5])
    naps = sorted(value for each in measured.values() for value in each.values)
    assert len(naps) == sum(row["steps"] for row in rows) + 3 * SHORT.warm_up
    assert all(ended <= begun for (_, ended), (begun, _) in itertools.pairwise(naps)), "two worked at the same time"


def test_the_order_turns_around_and_rounds_bound_from_above():
    with contenders(ENTRIES[:2], os.environ) as children:
        measured = take_turns(children, "nap", Budget(seconds=60, rounds=2, turn=0.001))
        assert take_turns(children, "no such task", SHORT) == {}
    naps = sorted((value, name) for name, each in measured.items() for value in each.values[-2:])
    assert [name for _, name in naps] == ["fast", "torch-slow", "torch-slow", "fast"]
    assert children[0].facts == {"seconds": FAST}


def test_memory_is_counted_without_what_imports_take():
    with contenders([Entry("hog", f"{SLEEPERS}:hog", {"megabytes": 200})], os.environ) as (child,):
        before, imports = child.memory()
        child.run("nap", 1)
        after, _ = child.memory()
    assert imports > 5e6
    assert before - imports < 30e6
    assert 190e6 < after - imports < 500e6


def test_ranks_make_a_step_together():
    with contenders([Entry("ranks", f"{SLEEPERS}:rank", processes=2)], os.environ) as (child,):
        assert child.facts["loss"] == 0.5
        seconds, losses, _ = child.run("nap", 2)
        assert losses == [0.5, -0.5]
        assert len(seconds) == 2
        assert child.device() == {"rank": 0}


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


def test_an_optional_contender_that_cannot_start_is_left_out(capsys):
    with contenders([Entry("broken", "no_such_module:nothing", optional=True), ENTRIES[0]], os.environ) as children:
        assert [child.name for child in children] == ["fast"]
    assert capsys.readouterr().err.startswith("benchmarks: left out: broken: expected an answer")
    assert children[0]._processes[0].poll() is not None, "it has ended afterwards"


def test_a_contender_that_takes_too_long_is_stopped():
    entry = Entry("slow", f"{SLEEPERS}:sleeper", {"seconds": 3600.0})
    with (
        pytest.raises(ContenderError, match=r"slow: expected an answer, it ended with code -9"),
        contenders([entry], os.environ, 2.0) as (child,),
    ):
        child.run("nap", 1)


def test_a_ratio_compares_rounds_that_took_turns():
    ours = [[1.0], [10.0, 10.0], [2.0], [4.0], [1.0, 3.0, 2.0]]  # the machine was slow in the second round
    theirs = [[2.0], [20.0], [6.0, 6.0], [8.0], [8.0]]
    assert harness.ratio(ours, theirs) == {"median": 2.0, "low": 2.0, "high": 3.0}
    assert list(harness.ratio([[1.0]] * 4, [[4.0], [1.0], [3.0], [2.0]]).values()) == [2.5, 1.75, 3.25], "interpolated"
    with pytest.raises(ValueError, match="zip"):
        harness.ratio(ours, theirs[:-1])


def test_steps_made_together_share_their_time(monkeypatch):
    """Ten steps are queued before the host waits; the answer has a time and a value for each."""
    waits, calls, clock = [], [], FakeTime()
    monkeypatch.setattr(harness, "time", clock)

    def step():
        calls.append(1)
        clock.now += 0.005

    made = Contender({}, {"step": lambda: repeated(step, 10)}, synchronize=lambda: waits.append(1), together=10)
    seconds, values, _ = Server(made, 0).answer("run", "step", 11)
    assert (len(calls), len(waits)) == (20, 2)
    assert values == [None] * 20
    assert seconds == pytest.approx([0.005] * 20)
    assert repeated(step, 1) is step


def test_the_core_time_of_other_processes_is_counted(tmp_path, monkeypatch):
    """The system's ticks: user, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen."""
    stat, tick = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(harness, "open", lambda path, **how: stat.open(**how), raising=False)
    stat.write_text(" ".join(["cpu", *(str(each * tick) for each in (3, 2, 1, 5, 2, 1, 1, 2)), "0", "0"]) + "\n")
    assert harness.core_seconds()[:2] == (10.0, 17.0)
    stat.unlink()
    assert harness.core_seconds() == (0.0, 0.0, 0.0), "this system does not tell"


def test_contenders_do_not_inherit_settings_that_slow_one_side_down(monkeypatch):
    slowing = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for name in machine.contenders_environment()[1]:
        monkeypatch.delenv(name)
    for name, value in slowing.items():
        monkeypatch.setenv(name, value)
    environment, removed = machine.contenders_environment()
    assert removed == sorted(slowing)
    assert not slowing.keys() & environment.keys()
    assert environment["PATH"]


def halved(number):
    """An answer to a question; some end the process."""
    return number // 2 if number else os._exit(7)


def test_a_process_that_dies_costs_one_answer():
    assert list(answers("tests.benchmarks.test_harness:halved", [[2], [0], [4], [6]], each=3)) == [1, {"code": 7}, 2, 3]
