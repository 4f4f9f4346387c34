"""All checks hold without a bug, notices each bug, and a survivor is called one."""

import re

import pytest

from npformer.errors import GradientError
from npformer.lab.mistake import Edit, Mistake
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.checks import Check, Program, all_checks
from npformer.lab.museum.detections import (
    TEST_GUARD,
    Detections,
    detection_table,
    examine,
    only_detectors,
    prepare,
    prepared,
)
from npformer.lab.museum.diagnose import diagnosis_of
from npformer.lab.museum.empty_tests import EMPTY_TESTS
from npformer.lab.museum.patch import patched
from npformer.lab.museum.stored import stored

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

#: One bug for each group of checks, and the check that must name it.
SAMPLE = (
    ("softmax-no-shared", "gradient of softmax", "drop a term: `dy - shared` became `dy`"),
    ("layer-norm-no-eps", "values of layer_norm", "y at [0, 0, 0] is"),
    ("attention-scale-d", "values of attention", "out at"),
    ("attention-dv-before-dropout", "gradient of attention", "v"),
    ("dropout-shared-object", "invariant: batch-order", "gradient of x"),
    ("cache-on-self", "invariant: reuse", "use A[0, 0, 0]: expected"),
    ("tied-one-gradient", "invariant: tying", "src_embedding.weight"),
    ("causal-diagonal-hidden", "values of attention mask", "visible at [0, 0] is 0, expected 1"),
    ("cross-padding-visible", "invariant: padding-invariance", "output[1, 0, 0]: expected"),
    ("loss-by-batch", "micro-batches", "a gradient at [16] is"),
    ("adamw-into-gradient", "AdamW by the textbook", "a.weight after step 1"),
    ("clip-per-tensor", "clipping", "the clipped gradient"),
    ("accumulate-means", "micro-batches", "the loss in three parts"),
    ("ranks-average-means", "slots", "the loss in four slots"),
    ("resume-loses-moments", "resume", "stopping at step 2"),
)


def harmless(edit):
    return Mistake("harmless", "changes nothing", (edit,), "a", "b", "A. B.")


def test_names_are_distinct_and_every_check_says_what_it_means():
    checks = all_checks()
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.meaning for check in checks)


def test_all_checks_hold_on_the_correct_program():
    """To find which functions each check runs it is run, and refused if it fails: see below."""
    prepared_checks = prepared()
    assert [len(check.parts) for check in all_checks()] == [
        len(prepared_checks.reached[check.name]) for check in prepared_checks.checks
    ]


@pytest.mark.parametrize(("name", "check", "diagnosis"), SAMPLE)
def test_a_bug_is_noticed_by_the_check_that_should(name, check, diagnosis):
    """That check alone; the command asks every check that the bug concerns."""
    one = bug(name)
    (asked,) = (each for each in all_checks() if each.name == check)
    with patched(one.edits) as backend:
        problems = asked(Program(backend))
    assert problems
    assert diagnosis in diagnosis_of(one, {check: problems[0]})


def test_a_bug_is_detected_by_every_check_that_notices_it():
    detections = examine(bug("clip-squared"))
    assert {"clipping"} < detections.problems.keys()
    assert detections.diagnosis == detections.problems["clipping"]
    assert detections.tried >= len(detections.problems)
    assert not detections.survives()


def test_each_bug_is_detected_by_one_check_at_least():
    """Not the whole table: each bug against the checks that run it, until one fails. That one is stored first.

    One finding is compared with the stored one: its numbers come from the models that the checks make.
    """
    survivors, reports = [], dict[str, list[str]]()
    for one in (one for one in BUGS if not one.test):
        chosen = prepared().concerned(one)
        with patched(one.edits) as backend:
            program = Program(backend)
            results = ((check.name, check(program, parts)) for check, parts in chosen)
            first, reports[one.id] = next(((name, problems) for name, problems in results if problems), ("none", []))
        known = stored(one)
        if first == "none" or known is None or first != next(iter(known.detections.problems)):
            survivors.append(f"{one.id}, found by {first}")
    assert survivors == [], "these survive, or python -m benchmarks.museum --all must store them anew"
    known = stored(bug("decoding-first-position"))
    was, now = known.detections.problems["decoding"], reports["decoding-first-position"][0]
    assert [float(each) for each in NUMBER.findall(now)] == pytest.approx(
        [float(each) for each in NUMBER.findall(was)], rel=2e-5
    ), "python -m benchmarks.museum --all must store it anew"
    assert NUMBER.sub("n", now) == NUMBER.sub("n", was)


@pytest.mark.parametrize("one", [one for one in BUGS if one.test], ids=lambda one: one.id)
def test_an_empty_test_passes_on_a_wrong_kernel_and_is_answered(one):
    assert EMPTY_TESTS[one.test].passes(), "the test fails on the right kernel too: it shows nothing"
    detections = examine(one)
    assert list(detections.problems) == [TEST_GUARD]


@pytest.mark.parametrize("name", ["no assertion", "with itself", "shapes only", "no dropout", "one head"])
def test_the_answer_is_about_the_kernel(name):
    assert EMPTY_TESTS[name].answer() == ""


@pytest.mark.parametrize("name", ["length one", "gamma one", "zero inputs", "wide tolerance"])
def test_what_proves_nothing_is_refused_on_a_right_kernel_too(name):
    assert "PROVES NOTHING" in EMPTY_TESTS[name].answer() or "refused" in EMPTY_TESTS[name].answer()


def test_an_empty_test_that_does_fail_is_no_bug():
    edit = Edit("npformer.functional.softmax:softmax_backward", "(y * (dy - shared),)", "(y * dy,)")
    wrong = Mistake("x", "t", (edit,), "a", "b", "A. B.", test="ones upstream")
    with pytest.raises(GradientError, match="expected the test to pass on the wrong kernel"):
        examine(wrong)


def test_a_change_that_changes_nothing_survives():
    edit = Edit("npformer.data.batches:batch_of", "targets.padded(first=first)", "targets.padded(first=int(first))")
    (detections,) = detection_table([harmless(edit)])
    assert detections.survives()
    assert detections.tried >= 1
    assert detections.to_dict()["survives"]


def test_only_killers_and_without():
    one, two = bug("causal-off"), bug("noam-max")
    table = [Detections(one, 9, {"causality": "a", "parity": "b"}, ""), Detections(two, 9, {"schedules": "c"}, "")]
    assert only_detectors(table) == {"schedules": ["noam-max"]}
    assert [detections.survives(["schedules"]) for detections in table] == [False, True]
    assert [detections.survives(["causality", "parity"]) for detections in table] == [True, False]


def test_reach_finds_the_checks_that_run_the_code():
    checks = [check for check in all_checks() if check.name in ("clipping", "schedules", "values of softmax")]
    chosen = [bug(name) for name in ("clip-squared", "noam-max", "softmax-overflow", "layer-norm-no-eps")]
    prepared_checks = prepare(checks, chosen)
    assert [[check.name for check, _ in prepared_checks.concerned(one)] for one in chosen] == [
        ["clipping"],
        ["schedules"],
        ["values of softmax"],
        [],
    ]


def test_checks_that_fail_without_a_bug_is_refused():
    with pytest.raises(GradientError, match="always: expected it to hold on npformer itself, but no"):
        prepare([Check("always", "fails", (lambda program: ["no"],))], [])


def test_a_crash_is_a_problem():
    def crash(program):
        raise ZeroDivisionError("by zero\nmore")

    assert Check("c", "m", (crash,))(None) == ["it crashes with ZeroDivisionError: by zero"]
