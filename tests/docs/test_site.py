"""The site as it was built: all links lead somewhere, nothing is asked of a network, and pages look right in a browser.

``python -m docs.site`` builds it; without a site that is as new as its sources these tests are skipped.
"""

import html
import posixpath
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from docs.site import api
from docs.site.places import ROOT, SITE
from docs.site.recordings import SHOWCASE
from npformer.functional import OPERATIONS
from tests.chromium import NARROW, WIDE

SOURCES = ("docs", "npformer", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples")


def problem():
    """Why there is no site to look at."""
    first = SITE / "index.html"
    if not first.is_file():
        return "no site is built: python -m docs.site"
    files = (
        path for name in SOURCES for path in (ROOT / name, *(ROOT / name).rglob("*.py"), *(ROOT / name).glob("*.md"))
    )
    newer = next((path for path in files if path.is_file() and path.stat().st_mtime > first.stat().st_mtime), None)
    return f"the site is older than {newer.relative_to(ROOT)}: python -m docs.site" if newer else None


pytestmark = pytest.mark.skipif(problem() is not None, reason=str(problem()))


@cache
def pages():
    """Path within the site -> text."""
    return {path.relative_to(SITE).as_posix(): path.read_text(encoding="utf-8") for path in SITE.rglob("*.html")}


@cache
def anchors(page):
    return frozenset(map(html.unescape, re.findall(r'\s(?:id|name)="([^"]+)"', pages()[page])))


def addresses(text):
    """Everything that a page's tags point to; a page that shows code may hold the text of a tag as well."""
    tags = "".join(re.findall(r"<[a-z][^<>]*>", text))
    return [html.unescape(address) for address in re.findall(r'\s(?:href|src|srcset|action|data)="([^"]*)"', tags)]


def test_all_links_lead_somewhere():
    lost = set()
    for page, text in pages().items():
        for address in addresses(text):
            if re.match(r"[a-z]+:", address):
                continue
            name, _, anchor = unquote(address).partition("#")
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(page), name.partition("?")[0])) if name else page
            )
            there = (SITE / target).is_file()
            if not there or (anchor and target in pages() and anchor not in anchors(target)):
                lost.add((page, address))
    assert not lost


def test_nothing_is_asked_of_a_network():
    """A link that a reader follows may lead away; what a browser loads by itself may not."""
    loads = re.compile(r"<(?:script|img|iframe|source|link|video|audio|object|embed)\b[^>]*(?:https?:)?//[^>]*>")
    imports = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
    requests = {page: hits for page, text in pages().items() if (hits := loads.findall(text) + imports.findall(text))}
    styles = [path for path in SITE.rglob("*.css") if imports.search(path.read_text(encoding="utf-8"))]
    assert not requests
    assert not styles


def test_every_public_name_has_its_place():
    for package in api.packages():
        for name in api.names(package):
            home = api.home(package, name)
            owner = home.rpartition(".")[0]
            place = f"api/{home}.html" if home in api.packages() else f"api/{owner}.html"
            assert place in pages(), home
            assert home in api.packages() or home in anchors(place) or f">{home}<" in pages()[place], home


def test_formulas_are_typeset():
    for page, text in pages().items():
        assert "merror" not in text, page
    for name, row in OPERATIONS.items():
        home = row.forward.__module__.rpartition(".")[2]
        assert pages()[f"operations/{home}.html"].count("<math") >= 2, name


def test_the_first_page_begins_with_one_action_and_the_questions_of_the_start_page():
    article = pages()["index.html"].partition("<article")[2]
    first, *others = re.findall(r'href="([^"#][^"]*)"', article)[:8]
    assert (first, others[0]) == ("start-here.html", f"traces/{SHOWCASE}.html")
    headings = re.findall(r'<section id="([^"]+)">\s*(?:<span [^>]*></span>)?<h2>', pages()["start-here.html"])
    assert others[1:] == [f"start-here.html#{name}" for name in headings]
    assert f'class="go"><a href="traces/{SHOWCASE}.html"' in pages()["start-here.html"]


def test_commands_of_the_lessons_lead_to_their_pages():
    for page in ("operations/linear", "course/linear", "museum/linear-bias-mean"):
        assert f'href="{page}.html"><code' in pages()["lessons.html"]


def test_options_keep_their_dashes_and_fields_their_words():
    for page, text in pages().items():
        assert not re.search(r"[\s(]–[a-z]", text), page
        assert "Alias for field number" not in text, page


LOOKED_AT = ("index", "start-here", "gradient-sizes", "judge", "operations/attention", "operations/layer_norm",
             "museum/index", "museum/attention", "museum/softmax-diagonal", "course/attention", "walk",
             "api/npformer.layers", "coverage", "files/npformer/layers/linear.py", "experiments/heads")  # fmt: skip
CUT = """return [...document.querySelectorAll("article :is(pre, .math-block)")]
    .filter((block) => block.scrollWidth > block.clientWidth + 1).map((block) => block.innerText)"""


@pytest.mark.browser
@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_page_in_a_browser(page, browser):
    """No error, no request, nothing wider than the window, and on a wide one no line of code or formula that is cut."""
    browser.open(SITE / f"{page}.html")
    for size in (NARROW, (768, 1024), (1024, 768), WIDE):
        browser.look(size)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert not browser.run(CUT)
    assert browser.run("return document.querySelector('h1').innerText").strip()


@pytest.mark.browser
def test_a_trace_stands_within_a_page_where_its_code_has_room_beside_it(browser):
    browser.open(SITE / "operations" / "softmax.html")
    assert browser.run("return document.querySelector('iframe.trace').clientWidth") > 900


@pytest.mark.browser
def test_the_search_finds_an_operation(browser):
    browser.open(Path(SITE / "search.html"))
    browser.find("input[name=q], .sidebar-search").send_keys("layer_norm\n")
    # results are shown one after the other
    browser.wait("document.querySelector('.search-summary')?.innerText.includes('finished')")
    links = browser.run("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")
    assert any("operations/layer_norm.html" in link for link in links)
