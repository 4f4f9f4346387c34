"""The battery holds without a bug, notices each bug, and a survivor is called one."""

from __future__ import annotations

import pytest

from npformer.backend import Backend
from npformer.errors import GradientError
from npformer.lab.museum.battery import Check, battery
from npformer.lab.museum.diagnose import diagnosis_of
from npformer.lab.museum.empty_tests import EMPTY_TESTS
from npformer.lab.museum.exhibit import Edit, Exhibit
from npformer.lab.museum.kills import TEST_GUARD, Kills, examine, kill_table, only_killers, prepared
from npformer.lab.museum.patch import patched
from npformer.lab.museum.reach import concerned, reach
from npformer.lab.museum.rooms import EXHIBITS, exhibit

#: One bug for each group of checks, and the check that must name it.
SAMPLE = (
    ("softmax-no-shared", "gradient of softmax", "drop a term: `dy - shared` became `dy`"),
    ("layer-norm-no-eps", "constant tokens", "y of a constant row"),
    ("attention-scale-d", "values of attention", "out at"),
    ("attention-dv-before-dropout", "gradient of attention", "v"),
    ("dropout-shared-object", "dropout's mask", "gradient"),
    ("cache-on-self", "certificate: reuse", "use A[0, 0, 0]: expected"),
    ("tied-one-gradient", "certificate: tying", "src_embedding.weight"),
    ("causal-diagonal-hidden", "every past token", "a target token does not see itself"),
    ("cross-padding-visible", "padding", "after more padding"),
    ("loss-by-batch", "micro-batches", "a gradient at [16] is"),
    ("adamw-into-gradient", "AdamW by the textbook", "a.weight after step 1"),
    ("clip-per-tensor", "clipping", "the clipped gradient"),
    ("accumulate-means", "micro-batches", "the loss in three parts"),
    ("resume-loses-moments", "resume", "stopping at step 2"),
)


def harmless(edit: Edit) -> Exhibit:
    return Exhibit("harmless", "operation", "changes nothing", (edit,), "a", "b", "A. B.")


def test_names_are_distinct_and_every_check_says_what_it_means() -> None:
    checks = battery()
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.meaning for check in checks)


def test_the_battery_holds_on_the_correct_program() -> None:
    """To find which functions each check runs it is run, and refused if it fails: see below."""
    checks, reached = prepared()
    assert len(reached) == len(checks) == len(battery())


@pytest.mark.parametrize(("name", "check", "diagnosis"), SAMPLE)
def test_a_bug_is_noticed_by_the_check_that_should(name: str, check: str, diagnosis: str) -> None:
    """That check alone; the command asks every check that the bug concerns."""
    one = exhibit(name)
    (asked,) = (each for each in battery() if each.name == check)
    with patched(one.edits) as backend:
        problems = asked(backend)
    assert problems
    assert diagnosis in diagnosis_of(one, {check: problems[0]})


def test_a_bug_is_killed_by_every_check_that_notices_it() -> None:
    kills = examine(exhibit("clip-squared"))
    assert {"clipping"} < kills.problems.keys()
    assert kills.diagnosis == kills.problems["clipping"]
    assert kills.tried >= len(kills.problems)
    assert not kills.survives()


def test_each_bug_is_killed_by_one_check_at_least() -> None:
    """Not the whole table: each bug against the checks that run it, until one fails."""
    checks, reached = prepared()
    survivors = []
    for one in (one for one in EXHIBITS if not one.test):
        chosen = concerned(one, checks, reached)
        with patched(one.edits) as backend:
            if not any(check(backend) for check in chosen):
                survivors.append(one.id)
    assert survivors == []


@pytest.mark.parametrize("one", [one for one in EXHIBITS if one.test], ids=lambda one: one.id)
def test_an_empty_test_passes_on_a_wrong_kernel_and_is_answered(one: Exhibit) -> None:
    assert EMPTY_TESTS[one.test].passes(), "the test fails on the right kernel too: it shows nothing"
    kills = examine(one)
    assert list(kills.problems) == [TEST_GUARD]


@pytest.mark.parametrize("name", ["no assertion", "with itself", "shapes only", "no dropout", "one head"])
def test_the_answer_is_about_the_kernel(name: str) -> None:
    assert EMPTY_TESTS[name].answer() == ""


@pytest.mark.parametrize("name", ["length one", "gamma one", "zero inputs", "wide tolerance"])
def test_what_proves_nothing_is_refused_on_a_right_kernel_too(name: str) -> None:
    assert "PROVES NOTHING" in EMPTY_TESTS[name].answer() or "refused" in EMPTY_TESTS[name].answer()


def test_an_empty_test_that_does_fail_is_no_exhibit() -> None:
    edit = Edit("npformer.functional.softmax:softmax_backward", "(y * (dy - shared),)", "(y * dy,)")
    wrong = Exhibit("x", "tests that cannot fail", "t", (edit,), "a", "b", "A. B.", test="ones upstream")
    with pytest.raises(GradientError, match="expected the test to pass on the wrong kernel"):
        examine(wrong)


def test_a_change_that_changes_nothing_survives() -> None:
    edit = Edit("npformer.data.batches:batch_of", "[first, *target]", "[first, *list(target)]")
    (kills,) = kill_table([harmless(edit)], workers=1)
    assert kills.survives()
    assert kills.tried >= 1
    assert kills.to_dict()["survives"]


def test_only_killers_and_without() -> None:
    one, two = exhibit("causal-off"), exhibit("noam-max")
    table = [Kills(one, 9, {"causality": "a", "parity": "b"}, ""), Kills(two, 9, {"schedules": "c"}, "")]
    assert only_killers(table) == {"schedules": ["noam-max"]}
    assert [kills.survives(["schedules"]) for kills in table] == [False, True]
    assert [kills.survives(["causality", "parity"]) for kills in table] == [True, False]


def test_reach_finds_the_checks_that_run_the_code() -> None:
    checks = [check for check in battery() if check.name in ("clipping", "schedules", "values of softmax")]
    chosen = [exhibit(name) for name in ("clip-squared", "noam-max", "softmax-overflow", "layer-norm-no-eps")]
    reached = reach(checks, chosen)
    assert [[check.name for check in concerned(one, checks, reached)] for one in chosen] == [
        ["clipping"], ["schedules"], ["values of softmax"], [],
    ]  # fmt: skip


def test_a_battery_that_fails_without_a_bug_is_refused() -> None:
    with pytest.raises(GradientError, match="always: expected it to hold on npformer itself, but no"):
        reach([Check("always", "fails", lambda backend: ["no"])], [])


def test_a_crash_is_a_problem() -> None:
    def crash(backend: Backend) -> list[str]:
        raise ZeroDivisionError("by zero\nmore")

    assert Check("c", "m", crash)(None) == ["it crashes with ZeroDivisionError: by zero"]  # type: ignore[arg-type]
