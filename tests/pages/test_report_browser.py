"""The report in a real browser: silent, and no wider than the screen or the sheet."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.browser import NARROW, WIDE
from npformer.pages.report import report_page
from npformer.training.attention_example import AttentionExample
from npformer.training.told import Piece, Told

pytestmark = pytest.mark.browser


@pytest.fixture
def page(summary, tmp_path):
    """A page of two runs with long words and wide maps."""
    tokens = [f"token{i}" for i in range(40)]
    weights = {"encoder.layers.0.self_attention": np.full((2, 40, 40), 1 / 40)}
    long = "a" * 300
    full = replace(
        summary,
        told=[Told(long, (Piece(long, long[::-1]), Piece("b", "x")), "")],
        attention=AttentionExample(weights, tokens, tokens, long),
        repeat=f"npformer train {long}",
        environment={"processor": long},
    )
    place = tmp_path / "report.html"
    place.write_text(report_page([full, full]), encoding="utf-8")
    return place


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_wide_narrow_and_on_paper(browser, page, dark):
    browser.open(page)
    for size, printed in ((WIDE, False), (NARROW, False), ((794, 1123), True)):
        browser.look(size, dark=dark, printed=printed)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(20, 23, 28)" if dark and not printed else "rgb(255, 255, 255)")
    assert browser.run("return document.querySelectorAll('script').length") == 0


def test_the_style_is_in_force_and_the_links_lead_somewhere(browser, page):
    browser.open(page)
    assert browser.run("return getComputedStyle(document.querySelector('.bad')).textDecorationLine") == "underline"
    lost = "return [...document.querySelectorAll('a')].filter(a => !document.querySelector(a.hash)).length"
    assert browser.run(lost) == 0
