"""Six questions are answered from the start page: each in few words, with few links, and with commands that exist."""

import re
import shlex
from pathlib import Path

import pytest

from npformer.cli.main import build_parser
from tests.docs.test_site import problem

pytest.importorskip("docutils", reason="the extra docs brings docutils")
from docs.site.assemble import index, start
from docs.site.places import ROOT, SITE

PAGE = (ROOT / "docs" / "start-here.md").read_text(encoding="utf-8")
FIRST, *ANSWERS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
WORDS = ("√d_k", "padding", "twice", "pre-LN", "large are gradients", "Adam")


def test_it_opens_with_one_question_and_one_action():
    assert FIRST.startswith("# Start here: ")
    assert len(re.findall(r"```sh", FIRST)) == 1
    assert len(FIRST.partition("\n- ")[0].split()) < 150


def test_each_of_the_six_questions_has_its_heading():
    assert len(ANSWERS) == len(WORDS)
    for word, answer in zip(WORDS, ANSWERS, strict=True):
        assert word in answer.partition("\n")[0]


@pytest.mark.parametrize("answer", ANSWERS, ids=WORDS)
def test_an_answer_is_short_and_its_links_lead_somewhere(answer):
    assert len(answer.split()) <= 300
    links = re.findall(r"\]\(([^)]+)\)", answer)
    assert 1 <= len(links) <= 3
    for link in links:
        assert (ROOT / "docs" / link.partition("#")[0]).resolve().is_file(), link


def test_its_commands_are_understood():
    for command in re.findall(r"npformer ([a-z]+ [^`\n]*)", PAGE):
        assert build_parser().parse_args(shlex.split(command)).command == command.split()[0]


def test_the_sites_first_page_begins_with_it():
    text = index((Path(ROOT) / "README.md").read_text(encoding="utf-8"))
    assert "start-here" in text.partition("\n\n")[2].partition("\n\n")[0]


def test_the_list_of_questions_has_the_name_to_which_the_tour_leads():
    assert '<a id="questions"></a>\n\n- [Why is attention' in start(PAGE)


#: What an answer must say, and where its last link must lead.
SAID = {
    "√d_k": ("variance d_k", "softmax", "attention"),
    "padding": ("exactly 0", "counted", "cross_entropy"),
    "twice": ("they add", "dtable", "embedding"),
    "pre-LN": ("warm-up", "goes past each layer unchanged", "norm_order"),
    "large are gradients": ("vanish", "explode", "initialisation"),
    "Adam": ("lr·m̂/(√v̂ + ε)", "very first step", "adam"),
}
SECTION = "document.querySelector(location.hash).closest('section')"


@pytest.mark.browser
@pytest.mark.skipif(problem() is not None, reason=str(problem()))
@pytest.mark.parametrize("word", WORDS)
def test_from_the_sites_first_page_three_links_and_300_words_lead_to_the_answer_and_its_numbers(browser, word):
    *said, last = SAID[word]
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
    assert all(each in answer for each in said)
    title = "document.querySelector('h1')?.innerText"
    before = browser.run(f"return {title}")
    browser.run(f"return [...{SECTION}.querySelectorAll('p a')].at(-1)").click()
    browser.wait(f"{title} && {title} !== '{before}'")
    assert last in browser.run("return location.pathname")
    assert browser.run("return document.querySelector('article').innerText.length") > 1_000
