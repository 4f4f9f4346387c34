"""The times of a trace's page: every step is made in every round, and what is over a limit is told."""

import pytest

from npformer.see.page import write_trace_page
from npformer.see.record.models import showcase
from tests.see.page import trace_page


@pytest.mark.browser
def test_every_step_is_timed_and_every_round_is_silent(browser, tmp_path, monkeypatch):
    record, silent = showcase(), []
    monkeypatch.setattr(browser, "expect_silence", lambda: silent.append(browser.errors() + browser.requests()))
    write_trace_page(record, tmp_path / "page.html")
    rows = trace_page.measured(browser, tmp_path / "page.html", rounds=2)
    assert silent == [[], []]
    made = f"of {2 * len(record.calls) - 1} steps"
    names = ["size", "first paint", f"script and layout, {made}", f"until the frame is drawn, {made}"]
    assert [row[0] for row in rows] == names
    assert browser.run("return npformerPage.step.number") == 2 * len(record.calls) - 1
    assert all(0 < float(row[2]) <= float(row[3]) for row in rows)


@pytest.mark.parametrize(("most", "verdict", "code"), [(50.0, "ok", 0), (50.1, "OVER", 1)])
def test_the_verdict_is_on_the_largest(monkeypatch, call, most, verdict, code):
    class Page:
        driver = type("Driver", (), {"quit": staticmethod(lambda: None)})

    row = trace_page._row("until the frame is drawn", "ms", [1.0, most, 2.0], trace_page.STEP)
    monkeypatch.setattr(trace_page, "browser_problem", lambda: None)
    monkeypatch.setattr(trace_page, "Browser", Page)
    monkeypatch.setattr(trace_page, "printed", lambda words: "")
    monkeypatch.setattr(trace_page, "measured", lambda *args: [row])
    ended = call(trace_page.main)
    assert ended.code == code
    assert ended.out.split()[-5:] == ["ms", "2", f"{most:g}", "50", verdict]


def test_what_cannot_run_is_told(monkeypatch, refused):
    monkeypatch.setattr(trace_page, "browser_problem", lambda: "no browser here")
    assert "trace_page: error: no browser here" in refused(trace_page.main)
