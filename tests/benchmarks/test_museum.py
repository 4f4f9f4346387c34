"""The museum's store is what its maker finds: the first finding of each bug, and the losses of short runs."""

import json
import math

import pytest

from benchmarks.museum import __main__ as museum
from benchmarks.museum.empty_tests import EMPTY_TESTS
from benchmarks.museum.examine import differing, examine
from benchmarks.museum.short_run import OF_MODEL, OF_STEP, right_course, wrong_course
from npformer.errors import GradientError
from npformer.lab.mistake import Edit, Mistake
from npformer.lab.museum import stored as store
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.stored import lines, stored

#: A bug for each way to find one, and a test that cannot fail; --full tries every bug.
SAMPLE = ("softmax-no-shared", "loss-counts-padding", "noam-max", "test-gamma-one")


def pytest_generate_tests(metafunc):
    if "one" in metafunc.fixturenames:
        chosen = BUGS if metafunc.config.getoption("full") else [bug(name) for name in SAMPLE]
        metafunc.parametrize("one", chosen, ids=lambda one: one.id)


def test_a_bug_is_found_by_what_found_it(one):
    assert examine(one).name == stored(one).found_by, "run python -m benchmarks.museum --all"


def made_up(old, new, where, **said):
    return Mistake((Edit(where, old, new),), "m", **said)


def test_a_change_that_changes_nothing_is_not_found():
    edit = "targets.padded(first=first)", "targets.padded(first=int(first))", "npformer.data.batches:batch_of"
    with pytest.raises(GradientError, match="m: expected something to find this bug, but nothing does"):
        examine(made_up(*edit))


def test_an_empty_test_that_does_fail_is_no_bug():
    wrong = made_up("(y * (dy - shared),)", "(y * dy,)", "npformer.functional.softmax:softmax_backward")
    with pytest.raises(GradientError, match="expected the test to pass on the wrong code"):
        examine(Mistake(wrong.edits, "m", test="ones upstream"))


@pytest.mark.parametrize("name", EMPTY_TESTS)
def test_an_empty_test_passes_on_the_right_kernel_and_what_proves_nothing_is_refused(name):
    assert EMPTY_TESTS[name].passes()
    answer = EMPTY_TESTS[name].answer()
    assert bool("PROVES NOTHING" in answer or "refused" in answer) == (name not in ("ones upstream", "no dropout"))


def test_numbers_differ_beyond_rounding():
    assert differing("y", [1.0, math.nan], [1.0 + 1e-12, math.nan]) == ""
    assert differing("y", [1.0, 2.0], [1.0, 2.5]) == "y at [1] is 2, without the bug 2.5"
    assert differing("y", [1.0], [[1.0]]) == "y has shape (1,), without the bug (1, 1)"


def test_the_beginning_of_a_course_made_anew_is_the_stored_one():
    """To a unit of the last digit that is stored: a run computes in float32, and rounding grows from step to step."""
    one = bug("causal-off")
    for course, anew in zip(stored(one).comparison, (right_course(one.run, 3), wrong_course(one, 3)), strict=True):
        for was, now in zip(course.losses, anew.losses, strict=False):
            assert was == pytest.approx(now, rel=2 * 10 ** (1 - museum.SHOWN))
    assert len(set(anew.ends)) == 3, "each seed has its own course"


def test_every_option_of_a_run_is_one_that_is_read():
    known = {*OF_MODEL, *OF_STEP, "equal_lengths", "eps", "weight_decay", "schedule"}
    assert {option for one in BUGS for option in one.run or ()} <= known


def test_only_what_is_missing_is_made(monkeypatch):
    monkeypatch.setattr(museum, "examine", lambda one: ("a check", "a problem", "why"))
    monkeypatch.setattr(museum, "wrong_course", lambda one: wrong_course(one, 2))
    broken = bug("adam-t-zero")
    assert museum.with_bug(lines(), broken) == lines()
    made = museum.with_bug({key: line for key, line in lines().items() if key != broken.id}, broken)
    line = json.loads(museum.as_text({broken.id: made[broken.id]}))
    assert (line["found_by"], line["losses"]) == ("a check", [None, None]), "NaN is no JSON"
    monkeypatch.setattr(store, "lines", lambda: made)
    assert stored(broken).comparison.place == "above", "without a number"
    assert str(stored(broken).comparison.wrong).startswith("loss not a number; training stops with ZeroDivisionError")


def test_the_text_is_that_of_the_file():
    assert museum.as_text(lines()) == store.PLACE.read_text(encoding="utf-8")
