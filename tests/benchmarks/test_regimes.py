"""The list of bugs that show in a regime alone: 40 of them, right at normal inputs as their twins are."""

import re

import pytest

from benchmarks.regimes.listed import BUGS


def test_the_list():
    assert len({bug.name for bug in BUGS}) == 40
    reports = [bug.report for bug in BUGS if bug.report]
    assert len(set(reports)) >= 15
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in reports)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_and_twin_are_right_at_normal_inputs(bug):
    for backward in (bug.backward, bug.wrong):
        assert bug.judged(backward, explain=False).ok
