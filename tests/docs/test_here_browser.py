"""The page of the exercises in a browser: a learner writes, is judged, and goes on to the next exercise."""

import pytest

from docs.site.here import page
from npformer.lab.grader import EXERCISES, find
from npformer.lab.grader.templates import pair_source, template
from tests.docs.test_here import BODY

DONE = "!document.getElementById('judge').disabled"
ANSWER = BODY + "return dy @ weight.T, X.T @ D{}, D.sum(0)"


@pytest.fixture
def opened(fetched, browser, tmp_path):
    """The page, open in the browser at its first exercise."""
    path = tmp_path / "here.html"
    path.write_text(page.page(fetched))
    browser.look()
    browser.open(path)
    browser.wait(DONE)
    return path


def choose(browser, name):
    browser.run("const list = document.getElementById('exercise'); list.selectedIndex = arguments[0]; "
                "list.dispatchEvent(new Event('change'))", EXERCISES.index(find(name)))  # fmt: skip


def judged_in(browser, name, body):
    """The verdict on an exercise with this body of its backward, with its own if there is none."""
    text = pair_source(find(name), body)
    browser.run("const c = document.getElementById('code'); c.value = arguments[0]; "
                "c.dispatchEvent(new Event('input'))", text)  # fmt: skip
    browser.click("#judge")
    browser.wait(DONE)
    return browser.find("#verdict").text


@pytest.mark.browser
def test_a_learner_writes_an_answer_in_the_page(opened, browser):
    def judged(body):
        return judged_in(browser, "linear", body)

    assert judged(ANSWER.format(" / len(X)")) == "linear: not yet; dweight is not right."
    assert "dweight is smaller than it should be, by as many times as there are tokens." in browser.find("#told").text
    for size in ((1280, 900), (390, 844)):
        for dark in (False, True):
            browser.look(size, dark=dark)
            assert browser.run("return document.documentElement.scrollWidth") <= size[0]
            assert not browser.run(OVERLAPS), (size, dark)
    browser.look()
    assert judged(ANSWER.format("")) == "linear: right."
    browser.driver.refresh()
    browser.wait(DONE)
    assert "X.T @ D, D.sum(0)" in browser.run("return document.getElementById('code').value")
    browser.run("document.querySelector('main').dataset.seconds = '1'")
    assert judged("while True: pass") == "linear: not yet; it takes too long."
    browser.run("document.querySelector('main').dataset.seconds = '600'")
    assert judged(ANSWER.format("")) == "linear: right."
    browser.run("window.confirm = () => false")
    browser.click("#reset")
    assert "X.T @ D" in browser.run("return document.getElementById('code').value")
    browser.run("window.confirm = () => true")
    browser.click("#reset")
    assert browser.run("return document.getElementById('code').value") == template(find("linear"))
    browser.expect_silence()


@pytest.mark.browser
def test_the_verdict_comes_into_sight(opened, browser):
    for size in ((390, 844), (1280, 900)):
        browser.look(size)
        browser.run("scrollTo(0, 0)")
        assert judged_in(browser, "linear", ANSWER.format(" / len(X)")).startswith("linear: not yet")
        top, bottom, height = browser.run(
            "const {top, bottom} = document.getElementById('verdict').getBoundingClientRect();"
            "return [top, bottom, innerHeight]"
        )
        assert top >= 0
        assert bottom <= height
        assert browser.run("return scrollY > 0") == (size[0] == 390)
    browser.look()


@pytest.mark.browser
def test_enter_keeps_the_indentation(opened, browser):
    """``|`` is the caret, before and after."""
    for before, after in {
        "    y = cache|": "    y = cache\n    |",
        "    y = cache|\nz": "    y = cache\n    |\nz",
        "for i in x:|": "for i in x:\n    |",
        "    if x:  # why: so|": "    if x:  # why: so\n        |",
        "  a = x[1:]|": "  a = x[1:]\n  |",
        "    |y = cache": "    \n    |y = cache",
        "  |  y": "  \n  |  y",
        "|": "\n|",
    }.items():
        place = before.index("|")
        browser.run("const c = document.getElementById('code'); c.value = arguments[0]; c.focus(); "
                    "c.setSelectionRange(arguments[1], arguments[1])", before.replace("|", ""), place)  # fmt: skip
        browser.press("Enter")
        text, place = browser.run("const c = document.getElementById('code'); return [c.value, c.selectionStart]")
        assert f"{text[:place]}|{text[place:]}" == after
        assert browser.run("return localStorage.getItem('npformer exercise linear')") == text


@pytest.mark.browser
def test_one_verdict_a_case_and_no_heading_without_a_text(opened, browser):
    choose(browser, "softmax")
    judged_in(browser, "softmax", "y = cache\n    return y * (dy - (dy * y).sum(axis=-1))")
    told = browser.find("#told").text
    assert "not so on “rows of length 1”" in told
    assert "right on" not in told
    headings = "return [...document.querySelectorAll('h2')].map(each => each.textContent)"
    assert browser.run(headings) == ["Hints: ValueError", "Hints: dx"]
    assert browser.run("return [...document.querySelectorAll('#told p')].every(each => each.textContent.trim())")
    judged_in(browser, "softmax", "return dy * cache * (1 - cache)")
    assert browser.run(headings) == ["Why: dx"]


@pytest.mark.browser
def test_the_exercise_stays_after_a_reload_and_the_next_one_is_offered(opened, browser):
    chosen = "const list = document.getElementById('exercise'); return list.options[list.selectedIndex].text"
    choose(browser, "relu")
    assert browser.run("return location.search") == "?exercise=relu"
    browser.driver.refresh()
    browser.wait(DONE)
    assert browser.run(chosen) == "2. ReLU"
    lines, (first, last, numbers, apart) = template(find("relu")).split("\n"), browser.run(SEEN)
    assert first < lines.index("def relu_backward(dy, cache):") + 1 < last, "what is to be written is in sight"
    assert (numbers, apart) == (len(lines), 0), "each stands beside its line"
    assert judged_in(browser, "relu", "return dy") == "relu: not yet; dx is not right."
    assert not browser.find("#next").is_displayed()
    assert judged_in(browser, "relu", "return np.where(cache, dy, 0.0)") == "relu: right."
    assert browser.find("#next").text == "Next: 3. GELU, the exact form"
    browser.click("#next")
    assert browser.run(chosen) == "3. GELU, the exact form"
    assert browser.run("return location.search") == "?exercise=gelu"
    assert browser.find("#verdict").text == "Not judged yet."
    assert not browser.find("#next").is_displayed()
    choose(browser, EXERCISES[-1].name)
    assert judged_in(browser, EXERCISES[-1].name, "").endswith(": right.")
    assert not browser.find("#next").is_displayed()


@pytest.mark.browser
def test_five_numbers_of_expected_and_yours_are_in_sight(opened, browser):
    browser.look((1280, 900))
    judged_in(browser, "linear", ANSWER.format(" / len(X)"))
    rows = "return [...document.querySelectorAll('#told li pre')].map(each => [each.scrollWidth, each.clientWidth])"
    assert "expected" in browser.find("#told li pre").text
    assert all(wide <= seen for wide, seen in browser.run(rows))
    assert browser.run("return document.documentElement.scrollWidth") <= 1280


#: The first and the last line in sight, how many are numbered, and how far the numbers are scrolled from the lines.
SEEN = """
const code = document.getElementById("code"), lines = document.getElementById("lines");
const [top, high] = [code.scrollTop, parseFloat(getComputedStyle(code).lineHeight)];
return [top / high, (top + code.clientHeight) / high, lines.textContent.split("\\n").length, lines.scrollTop - top];
"""
#: Pairs of the page's parts that cover each other.
OVERLAPS = """
const names = "h1, header p, select, button, textarea, .note, #verdict, li, h2, summary, footer p";
const parts = [...document.querySelectorAll(names)];
const boxes = parts.map(part => part.getBoundingClientRect());
const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
return boxes.some((a, i) => boxes.some((b, j) => j > i && meet(a, b)));
"""
