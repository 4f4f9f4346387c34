"""Six questions are answered from the start page: each in few words, with few links, and with its numbers."""

import pytest

from tests.docs.test_site import problem

pytest.importorskip("docutils", reason="the extra docs brings docutils")
from docs.site.assemble import start
from docs.site.places import ROOT, SITE

PAGE = (ROOT / "docs" / "start-here.md").read_text(encoding="utf-8")


def test_the_list_of_questions_has_the_name_to_which_the_tour_leads():
    assert '<a id="questions"></a>\n\n- [Why is attention' in start(PAGE)


#: A word of each question, and where the last link of its answer must lead; quantities.md has what the answers say.
LAST = {"√d_k": "attention", "padding": "cross_entropy", "twice": "embedding", "pre-LN": "norm_order",
        "large are gradients": "initialisation", "Adam": "adam"}  # fmt: skip
SECTION = "document.querySelector(location.hash).closest('section')"


@pytest.mark.browser
@pytest.mark.skipif(problem() is not None, reason=str(problem()))
@pytest.mark.parametrize(("word", "last"), LAST.items())
def test_from_the_sites_first_page_three_links_and_300_words_lead_to_the_answer_and_its_numbers(browser, word, last):
    browser.open(SITE / "index.html")
    browser.click("article a[href='start-here.html']")
    browser.wait("document.querySelector('h1')?.innerText.startsWith('Start here')")
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    links = browser.driver.find_elements("css selector", "article li a[href^='#']")
    next(link for link in links if word in link.text).click()
    browser.wait("location.hash")
    answer = browser.run(f"return {SECTION}.innerText")
    assert len(answer.split()) <= 300
    assert word in answer.partition("\n")[0]
    title = "document.querySelector('h1')?.innerText"
    before = browser.run(f"return {title}")
    browser.run(f"return [...{SECTION}.querySelectorAll('p a')].at(-1)").click()
    browser.wait(f"{title} && {title} !== '{before}'")
    assert last in browser.run("return location.pathname")
    assert browser.run("return document.querySelector('article').innerText.length") > 1_000
