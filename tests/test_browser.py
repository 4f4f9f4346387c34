"""The browser of the tests: no network, and nothing that a page logs or asks for is lost."""

import pytest

pytestmark = pytest.mark.browser

PAGE = '<!doctype html><meta charset="utf-8"><title>a page</title>'


@pytest.fixture
def page(tmp_path):
    """Writes a page and opens it."""

    def write(browser, more=""):
        place = tmp_path / "a page.html"
        place.write_text(PAGE + more, encoding="utf-8")
        browser.open(place)

    return write


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
