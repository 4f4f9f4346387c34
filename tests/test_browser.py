"""The browser of the tests: no network, and nothing that a page logs or asks for is lost."""

import struct

import pytest

from benchmarks.browser import NARROW, WIDE

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><meta charset="utf-8"><title>a page</title>
<style>body { background: white } @media (prefers-color-scheme: dark) { body { background: black } }
@media print { p { display: none } }</style>
<p id="first" tabindex="0">first</p><button>second</button>
<script>
const seen = [];
document.addEventListener("keydown", event => seen.push(event.key));
document.querySelector("p").addEventListener("mouseenter", () => seen.push("over"));
document.querySelector("button").addEventListener("click", () => seen.push("click"));
</script>"""


@pytest.fixture
def page(tmp_path):
    """Writes a page and opens it."""

    def write(browser, more=""):
        place = tmp_path / "a page.html"
        place.write_text(PAGE + more, encoding="utf-8")
        browser.open(place)

    return write


def test_keys_clicks_and_the_pointer_arrive(browser, page):
    page(browser)
    browser.hover("p")
    browser.click("button")
    browser.press("ArrowRight", "Escape", "a")
    assert browser.wait("seen.length >= 5 && seen") == ["over", "click", "ArrowRight", "Escape", "a"]


def test_sizes_and_colours(browser, page):
    page(browser)
    paper = "getComputedStyle(document.body).backgroundColor"
    for size in (WIDE, NARROW):
        for dark, colour in ((False, "rgb(255, 255, 255)"), (True, "rgb(0, 0, 0)")):
            browser.look(size, dark=dark)
            assert browser.run(f"return [innerWidth, innerHeight, {paper}]") == [*size, colour]
    browser.look(printed=True)
    assert browser.run("return getComputedStyle(document.querySelector('p')).display") == "none"


def test_a_picture_of_what_is_in_sight(browser, page, tmp_path):
    page(browser, "<div style='height: 3000px; width: 20px'></div>")
    browser.picture(tmp_path / "page.png")
    data = (tmp_path / "page.png").read_bytes()
    assert struct.unpack(">II", data[16:24]) == WIDE


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("<script>throw new Error('thrown here')</script>", "thrown here"),
        ("<script>console.error('logged here')</script>", "logged here"),
        ("<script>Promise.reject(new Error('rejected here'))</script>", "rejected here"),
        ("<img src='missing.png'>", "missing.png"),
    ],
)
def test_an_error_is_seen(chromium, page, more, message):
    chromium.begin()
    page(chromium, more)
    assert any(message in line for line in chromium.errors())
    assert not chromium.requests()
    with pytest.raises(AssertionError, match=message):
        chromium.expect_silence()
    chromium.begin()
    chromium.expect_silence()


@pytest.mark.parametrize("address", ["http://example.org/a", "https://127.0.0.1/a", "http://localhost:8000/a"])
def test_a_request_is_seen_and_does_not_get_through(chromium, page, address):
    chromium.begin()
    page(chromium, f"<script>const asked = fetch('{address}').then(() => 'got through')</script>")
    assert chromium.driver.execute_async_script("asked.catch(() => 'blocked').then(arguments[0])") == "blocked"
    assert chromium.requests() == [address]
    with pytest.raises(AssertionError, match=address):
        chromium.expect_silence()
    chromium.begin()
    chromium.expect_silence()
