"""A trace within a page of the site has the page's theme; what else a page may send it, it ignores."""

import shutil

import pytest

import npformer as npf
from docs.site.places import ROOT, page_of
from docs.site.traces import LINKS
from npformer.see.page import write_trace_page
from tests.chromium import NARROW, READY, WIDE

pytestmark = pytest.mark.browser

AROUND = """<!doctype html><html><link rel="stylesheet" href="style.css"><body data-theme="dark">
<iframe class="trace" src="trace.html"></iframe><p class="beside"><a href="trace.html">Open it</a></p>
<script src="frames.js" defer></script></body></html>"""
THEME = "document.documentElement.dataset.theme"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def around(browser, tmp_path):
    """A page as the site's, in a dark theme, with a trace in it."""
    write_trace_page(npf.trace("relu"), tmp_path / "trace.html")
    for name in ("frames.js", "style.css"):
        shutil.copy(ROOT / "docs" / "site" / "theme" / name, tmp_path)
    (tmp_path / "math.woff").touch()
    (tmp_path / "around.html").write_text(AROUND)
    browser.open(tmp_path / "around.html")
    return browser


def inside(browser, expression):
    """Wait until an expression is true within the trace."""
    browser.driver.switch_to.frame(0)
    browser.wait(READY)
    value = browser.wait(expression)
    browser.driver.switch_to.default_content()
    return value


def send(browser, message):
    browser.run("document.querySelector('iframe').contentWindow.postMessage(arguments[0], '*')", message)


def test_a_trace_follows_the_theme_of_the_page_around_it(around):
    assert inside(around, f"{THEME} === 'dark' && {PAPER}") == "rgb(20, 23, 28)"
    around.run("document.body.dataset.theme = 'light'")
    assert inside(around, f"{THEME} === 'light' && {PAPER}") == "rgb(255, 255, 255)"
    around.run("document.body.dataset.theme = 'auto'")
    assert inside(around, f"!{THEME} && {PAPER}") == "rgb(255, 255, 255)"
    around.look(dark=True)
    assert inside(around, f"!{THEME} && {PAPER} !== 'rgb(255, 255, 255)'")


def test_whatever_is_no_theme_is_ignored(around):
    inside(around, f"{THEME} === 'dark'")
    for message in ("light", None, {"theme": "red"}, {"theme": {"toString": "light"}}, {"theme": ["light"]}, 7):
        send(around, message)
    send(around, {"theme": "auto"})  # messages come in order: after this one all others were read
    inside(around, f"!{THEME}")
    around.driver.switch_to.frame(0)
    around.driver.execute_async_script(
        "const [done] = arguments; window.addEventListener('message', () => done(), {once: true});"
        "window.postMessage({theme: 'light'}, '*')"
    )
    assert around.run(f"return {THEME}") is None  # from itself, not from the page around it
    around.driver.switch_to.default_content()


def test_a_phone_has_the_link_alone(around):
    for size, is_shown in ((WIDE, True), (NARROW, False)):
        around.look(size)
        assert around.find("iframe.trace").is_displayed() == is_shown
        assert around.find("p.beside a").is_displayed()


def test_a_trace_within_a_page_shows_its_code(around):
    around.look((800, 900))
    assert inside(around, "document.getElementById('code').getBoundingClientRect().top") < 200


def test_a_trace_links_to_the_page_of_each_operation():
    assert len(LINKS) > 10
    assert all(address == f"../{page_of(path) or 'start-here'}.html" for path, address in LINKS.items())
