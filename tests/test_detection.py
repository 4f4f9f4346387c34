"""The tool that holds the sample against all tests: faults are put in, seen, and gone afterwards."""

import numpy as np
import pytest

from npformer.functional import embedding_backward, embedding_forward
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.detections import prepared
from npformer.lab.museum.patch import function_at
from tests.detection import ROOT, Fault, _first_failing, _tests_of, all_checks_test, faults, noticing_check

FAULTS = faults()


@pytest.fixture
def doubled():
    """A wrong gradient of the plain embedding, which no check of the museum runs on NumPy."""
    return next(one for one in FAULTS if "scale by 2" in one.name and "embedding_backward" in one.name)


def test_all_bugs_and_all_mutants_each_under_a_name_of_its_own():
    assert len({one.name for one in FAULTS}) == len(FAULTS) > len(BUGS) + 700
    assert sum(one.name.startswith("bug ") for one in FAULTS) == len(BUGS)


def test_a_fault_is_put_in_and_taken_out(doubled):
    dy = np.array([[1.0, 2.0]])
    cache = embedding_forward(np.array([1]), np.ones((3, 2)))[1]
    right = embedding_backward(dy, cache)[0]
    with doubled.put_in():
        np.testing.assert_array_equal(embedding_backward(dy, cache)[0], 2 * right)
    np.testing.assert_array_equal(embedding_backward(dy, cache)[0], right)


def test_checks_notice_a_fault_and_not_that_there_is_none():
    bug = next(one for one in FAULTS if one.name == "bug clip-squared")
    assert noticing_check(bug, prepared()) == "clipping"
    (target,) = bug.wrong
    assert noticing_check(Fault("none", {target: function_at(target)}), prepared()) == ""


def test_tests_notice_what_no_check_does(doubled):
    (place,) = map(_tests_of, doubled.wrong)
    assert place == "tests/functional/test_embedding.py"
    assert _first_failing([place], doubled.name).startswith(f"{place}::test_")


def test_the_test_of_all_checks_is_there_and_has_one_case():
    place, _, name = all_checks_test().partition("::")
    text = (ROOT / place).read_text(encoding="utf-8")
    assert f"\n\n\ndef {name}():\n" in text, "with parameters or a decorator, the sample might leave it out"
