"""The page of the exercises in a browser: a learner writes, is judged, and goes on to the next exercise."""

import pytest

from docs.site.here import page
from npformer.lab.grader import find
from npformer.lab.grader.templates import pair_source, template
from tests.docs.test_here import BODY

DONE = "!document.getElementById('judge').disabled"
ANSWER = BODY + "return dy @ weight.T, X.T @ D{}, D.sum(0)"


@pytest.mark.browser
def test_a_learner_writes_an_answer_in_the_page(fetched, browser, tmp_path):
    path = tmp_path / "here.html"
    path.write_text(page.page(fetched))
    browser.open(path)
    browser.wait(DONE)

    def judged(body):
        text = pair_source(find("linear"), body)
        browser.run("const c = document.getElementById('code'); c.value = arguments[0]; "
                    "c.dispatchEvent(new Event('input'))", text)  # fmt: skip
        browser.click("#judge")
        browser.wait(DONE)
        return browser.find("#verdict").text

    assert judged(ANSWER.format(" / len(X)")) == "linear: not yet; dweight is not right."
    assert "dweight is smaller than it should be, by as many times as there are tokens." in browser.find("#told").text
    for size in ((1280, 900), (390, 844)):
        for dark in (False, True):
            browser.look(size, dark=dark)
            assert browser.run("return document.documentElement.scrollWidth") <= size[0]
            assert not browser.run(OVERLAPS), (size, dark)
    browser.look()
    assert judged(ANSWER.format("")) == "linear: right."
    browser.open(path)
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


#: Pairs of the page's parts that cover each other.
OVERLAPS = """
const names = "h1, header p, select, button, textarea, .note, #verdict, li, h2, summary, footer p";
const parts = [...document.querySelectorAll(names)];
const boxes = parts.map(part => part.getBoundingClientRect());
const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
return boxes.some((a, i) => boxes.some((b, j) => j > i && meet(a, b)));
"""
