"""What is stored of the bugs: complete, of the bugs as they are now, and equal to what is made anew."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from npformer.lab.museum import stored as module
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.demonstration import SEEDS, STEPS, right_course, wrong_course
from npformer.lab.museum.detections import Detections
from npformer.lab.museum.stored import as_text, digest, known, rounded, stored, with_bug

PACKAGE = Path(module.__file__).parents[2]
SOURCES = [
    path.read_text(encoding="utf-8") for part in ("functional", "layers") for path in (PACKAGE / part).glob("*.py")
]
STALE = "run python -m benchmarks.museum"


@pytest.mark.parametrize("one", BUGS, ids=lambda one: one.id)
def test_every_bug_is_stored_as_it_is_now(one):
    kept = stored(one)
    assert kept is not None, STALE
    assert (kept.comparison is None) == (one.run is None)
    assert kept.detections.bug == one
    assert not kept.detections.survives()
    if kept.comparison is not None:
        assert len(kept.comparison.right_ends) == len(kept.comparison.wrong_ends) == len(SEEDS), STALE
        assert len(kept.comparison.right.losses) == len(kept.comparison.wrong.losses) == STEPS, STALE
        assert str(kept.comparison.right)
        assert kept.comparison.right.last_loss < 1.5, "the run without a bug learns"


def test_the_lines_that_are_named_are_the_codes():
    """If not, the code has moved since they were stored."""
    named = [re.findall(r"`([^`]*)` became .*?\((\w+), line (\d+)\)", stored(one).detections.diagnosis) for one in BUGS]
    for code, function, line in (each for found in named for each in found):
        texts = [text.splitlines() for text in SOURCES if re.search(rf"^ *def {function}\(", text, re.M)]
        shown = [" ".join(text[int(line) - 1 : int(line) + 2]) for text in texts]
        first = re.findall(r"\w+", code)[0]
        assert any(re.search(rf"\b{first}\b", each) for each in shown), (STALE, function, line)


def test_nothing_else_is_stored():
    assert as_text(known(), BUGS) == module.PLACE.read_text(encoding="utf-8"), STALE


@pytest.mark.parametrize("name", ["causal-off"])
def test_the_beginning_of_a_course_made_anew_is_the_stored_one(name):
    """To one unit of the last digit that is stored: a run computes in float32, so its bits depend on the processor.

    The first steps only, since rounding grows from step to step.
    """
    one, steps = bug(name), 20
    kept = stored(one)
    for course, anew in (
        (kept.comparison.right, right_course(one.run or {}, steps)),
        (kept.comparison.wrong, wrong_course(one, steps)),
    ):
        for was, now in zip(course.losses, anew.losses, strict=False):
            assert abs(was - now) <= 1.5 * 10 ** (math.floor(math.log10(was)) + 1 - module.DIGITS), STALE


def test_a_bug_that_has_changed_is_not_shown():
    one = bug("causal-off")
    for changed in (replace(one, edits=bug("noam-max").edits), replace(one, run={"dropout": 0.5})):
        assert digest(changed) != digest(one)
        assert stored(changed) is None
    assert digest(replace(one, story="Told better.")) == digest(one)


def test_only_what_is_missing_is_made(monkeypatch):
    monkeypatch.setattr(module, "examine", lambda one: Detections(one, 3, {"a check": "a problem"}, "why"))
    monkeypatch.setattr(module, "right_course", lambda options, seed=0: right_course(options, 2, seed))
    monkeypatch.setattr(module, "wrong_course", lambda one, seed=0: wrong_course(one, 2, seed))
    one, broken, untrained = bug("causal-off"), bug("adam-t-zero"), bug("test-gamma-one")
    lines = {}
    for each in (one, broken, untrained):
        lines = with_bug(lines, each)
    stored_ids = [line.get("bug") for line in map(json.loads, as_text(lines, BUGS).splitlines())]
    assert stored_ids == [None, "causal-off", "adam-t-zero", "test-gamma-one"]
    assert lines["adam-t-zero"]["losses"] == [None, None]
    assert lines["adam-t-zero"]["exact_match"] is None, "NaN is no JSON"
    assert "losses" not in lines["test-gamma-one"]
    monkeypatch.setattr(module, "examine", lambda one: pytest.fail("made again"))
    assert with_bug(lines, one) == lines
    monkeypatch.setattr(module, "known", lambda: lines)
    kept = stored(broken)
    assert kept.comparison.place == "above", "without a number"
    assert len({end[0] for end in lines["causal-off"]["ends"]}) == len(SEEDS), "each seed has its own course"
    assert math.isnan(kept.comparison.wrong.losses[0])
    assert math.isnan(kept.comparison.wrong.exact_match)
    assert kept.comparison.wrong.trouble.startswith("training stops with ZeroDivisionError")
    assert kept.detections == Detections(broken, 3, {"a check": "a problem"}, "why")


@pytest.mark.parametrize(
    ("loss", "shown"), [(2.07944154, 2.079), (0.00123456, 0.001235), (math.nan, None), (math.inf, None)]
)
def test_four_digits_are_stored(loss, shown):
    assert rounded(loss) == shown
