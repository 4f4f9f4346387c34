"""What a notebook shows: tables with every text escaped, readable on light paper and on dark; pages in frames."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from npformer.check.derivations import judge, read
from npformer.check.report import (
    FAILS,
    HOLDS,
    KINK,
    NOT_APPLICABLE,
    NOTHING,
    RIGHT,
    UNCLEAR,
    WRONG,
    Claim,
    Report,
    Row,
)
from npformer.layers import Linear
from npformer.run import RunDirectory
from npformer.see.page import notebook, trace_page
from npformer.see.page.report import report_page

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=y> \" ' \u202e"
ROW = Row("gamma", (4, 2), 8, 1e-16, 2e-12, (1, 0), 0.5, 0.25, 2.0, RIGHT)
CLAIM = Claim("causality", "what comes later changes nothing", HOLDS)


def cells(text):
    """The texts of a table's cells, row by row."""
    rows = re.findall("<tr>(.*?)</tr>", text)
    return [[html.unescape(re.sub("<.*?>", "", cell)).strip() for cell in re.findall("<t[hd].*?</t[hd]>", row)]
            for row in rows]  # fmt: skip


def marks(text):
    """(class, verdict) of each verdict that is marked."""
    return re.findall(r'<b class="(\w+)">(.*?)</b>', text)


def test_a_report_is_a_table_with_its_verdicts_marked_and_its_diagnosis_below():
    bad = replace(ROW, tensor="weight", verdict=WRONG, note="look here", diagnosis="too large by 2")
    others = [replace(ROW, verdict=verdict) for verdict in (KINK, UNCLEAR, NOTHING)]
    report = Report("my check", (ROW, bad, *others), problems=("it changes x",))
    text = report._repr_html_()
    head, first, second, *_ = cells(text)
    assert head == ["tensor", "shape", "elements", "error", "worst", "analytic", "numeric", "ratio", "verdict"]
    assert first == ["gamma", "4×2", "8", "1.0e-16", "1,0", "5.00e-01", "2.50e-01", "2", "right"]
    assert second[-1] == "WRONG: look here"
    assert marks(text)[:2] == [("right", "right"), ("wrong", "WRONG")]
    assert {kind for kind, _ in marks(text)[2:]} == {"unclear"}
    assert re.findall("<p>(.*?)</p>", text) == ["weight: too large by 2", "PROBLEM: it changes x"]
    assert "<caption>my check</caption>" in text


def test_claims_are_a_table():
    bad = replace(CLAIM, verdict=FAILS, reason="y[0, 1]: expected 1, got 2")
    without = replace(CLAIM, name="tying", verdict=NOT_APPLICABLE, reason="nothing is tied")
    text = Report("my model", claims=(CLAIM, bad, without))._repr_html_()
    assert cells(text) == [
        ["claim", "verdict"],
        ["causality", "holds"],
        ["causality", "DOES NOT HOLD: y[0, 1]: expected 1, got 2 (claimed: what comes later changes nothing)"],
        ["tying", "does not apply: nothing is tied"],
    ]
    assert [kind for kind, _ in marks(text)] == ["right", "wrong", "quiet"]
    assert "<p>1 hold, 1 do not hold, 1 do not apply</p>" in text
    derived = judge(read("x: (N,)\ny = x * 2\ndx = dy"))
    assert cells(derived._repr_html_())[1] == ["dx", "WRONG: (claimed: dx = dy)"]


def test_a_model_is_a_table_of_its_parts(numpy64):
    layer = Linear(3, 2, backend=numpy64)
    text = layer._repr_html_()
    assert "<caption>Linear: 8 parameters</caption>" in text
    assert cells(text) == [["part", "class", "parameters", "arrays"], ["Linear", "", "8", "weight 3×2; bias 2"]]


def page_in(text):
    """The page in a frame, which is a sandbox that shares no origin with the notebook."""
    frame = re.fullmatch(
        r'<iframe title="[^"<]*" sandbox="allow-scripts allow-forms" srcdoc="([^"<]*)" [^<]*></iframe>', text
    )
    return html.unescape(frame[1])


def test_a_trace_and_a_run_are_their_pages_in_a_frame(summary):
    trace = npf.trace("relu", np.array([1.5, -2.0]))
    assert page_in(trace._repr_html_()) == trace_page(trace)
    assert page_in(summary._repr_html_()) == report_page([summary])


def test_a_trace_too_large_for_a_notebook_says_what_writes_its_page(monkeypatch):
    trace = npf.trace("relu", np.array([1.5, -2.0]))
    size = sum(x.nbytes for x in trace.arrays.values())
    monkeypatch.setattr(notebook, "MOST_BYTES", size - 1)
    assert f"The page of {size:,} bytes of numbers is too large" in trace._repr_html_()
    assert "write_trace_page(trace, &quot;trace.html&quot;)" in html.escape(html.unescape(trace._repr_html_()))
    monkeypatch.setattr(notebook, "MOST_BYTES", size)
    assert trace._repr_html_().startswith("<iframe ")


def test_what_has_no_table_is_its_text():
    assert notebook.html_of("a\nb <i>\x1b") == "<pre>a\nb &lt;i&gt;\\x1b</pre>"


def hostile_outputs(summary, folder):
    """Outputs of things whose every text wants to be HTML."""
    row = replace(ROW, tensor=HOSTILE, verdict=HOSTILE, note=HOSTILE, diagnosis=HOSTILE)
    claim = Claim(HOSTILE, HOSTILE, FAILS, HOSTILE)
    layer = Linear(3, 2, backend=npf.get_backend("numpy"))
    layer.parts = {HOSTILE: Linear(2, 2, backend=layer.backend)}
    return [
        Report(HOSTILE, (row,), problems=(HOSTILE,), notes=(HOSTILE,))._repr_html_(),
        Report(HOSTILE, claims=(claim,))._repr_html_(),
        layer._repr_html_(),
        npf.trace("relu", np.array([1.5, -2.0]), name=HOSTILE)._repr_html_(),
        replace(summary, run=RunDirectory(folder / 'a<b>"'))._repr_html_(),
    ]


def test_nobody_s_text_is_html(summary, tmp_path):
    for text in hostile_outputs(summary, tmp_path):
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text or text.startswith("<iframe "), "a page has tests of its own"
        assert text.count("</style>") == text.count("<style>")


AROUND = """<!doctype html><meta charset="utf-8"><title>a notebook</title>
<style>:root {{ color-scheme: light dark }} body {{ color: light-dark(#000, #ddd); background: light-dark(#fff, #111) }}
.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) :is(td, th) {{ text-align: right }}</style>
<div class="jp-RenderedHTMLCommon">{}</div>"""
CONTRAST = """
const luminance = (colour) => {
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = colour.match(/[\\d.]+/g).map((x) => linear(x / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const paper = (node) => {
  const own = getComputedStyle(node).backgroundColor;
  return own === "rgba(0, 0, 0, 0)" && node.parentElement ? paper(node.parentElement) : own;
};
const texts = [...document.querySelectorAll("th, td, b, p, caption, pre")].filter((node) => node.textContent.trim());
return texts.map((node) => {
  const [low, high] = [luminance(getComputedStyle(node).color), luminance(paper(node))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
});"""


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_read_on_light_and_on_dark_paper(browser, summary, tmp_path, dark):
    rows = [replace(ROW, verdict=verdict) for verdict in (RIGHT, WRONG, UNCLEAR)]
    claims = [replace(CLAIM, verdict=verdict) for verdict in (HOLDS, FAILS, NOT_APPLICABLE)]
    shown = Report("check", tuple(rows), ("problem",)), Report("claims", claims=tuple(claims))
    outputs = [thing._repr_html_() for thing in shown]
    place = tmp_path / "notebook.html"
    place.write_text(AROUND.format("".join(outputs)), encoding="utf-8")
    browser.look(dark=dark)
    browser.open(place)
    found = browser.run(CONTRAST)
    assert len(found) > 30
    assert min(found) >= 4.5
    cells_of_a_row = "[...document.querySelectorAll('tbody tr:first-child > *')]"
    aligned = browser.run(f"return {cells_of_a_row}.map((cell) => getComputedStyle(cell).textAlign)")
    assert aligned[:9] == ["left", *["right"] * 7, "left"], "whatever the notebook's own rule"


@pytest.mark.browser
def test_frames_work_within_their_sandbox_and_hostile_texts_do_nothing(browser, summary, tmp_path):
    place = tmp_path / "notebook.html"
    place.write_text(AROUND.format("".join(hostile_outputs(summary, tmp_path))), encoding="utf-8")
    browser.open(place)
    browser.driver.switch_to.frame(0)
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.click("#helpbutton")
    assert browser.run("return document.querySelector('#help').open")
    browser.click("#help button")
    assert not browser.run("return document.querySelector('#help').open")
    assert browser.run("return window.origin") == "null"
    browser.driver.switch_to.default_content()
    browser.driver.switch_to.frame(1)
    assert browser.run("return document.querySelectorAll('section').length") >= 8
    browser.driver.switch_to.default_content()
