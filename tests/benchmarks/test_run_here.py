"""The times of the page that judges exercises: every exercise in every round, with a right verdict."""

import pytest

from benchmarks import run_here
from docs.site.here.libraries import fetched
from docs.site.here.page import page
from npformer.lab.grader import EXERCISES


@pytest.mark.browser
def test_every_round_is_timed_and_judged_right(browser, tmp_path):
    libraries = fetched()
    if isinstance(libraries, str):
        pytest.skip(libraries)
    (tmp_path / "page.html").write_text(page(libraries))
    rows = run_here.measured(browser, tmp_path / "page.html", 2, EXERCISES[:1])
    assert [row[0] for row in rows] == ["size", "can judge", "first verdict"]
    size, ready, verdict = (float(row[2]) for row in rows)
    assert size <= run_here.MEGABYTES
    assert 0 < ready < verdict
