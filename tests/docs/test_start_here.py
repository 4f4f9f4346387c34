"""Six questions are answered from the start page: each in few words, with few links, and with commands that exist."""

import re
import shlex
from pathlib import Path

import pytest

from docs.site.assemble import index
from docs.site.places import ROOT
from npformer.cli.main import build_parser

PAGE = (ROOT / "docs" / "start-here.md").read_text(encoding="utf-8")
FIRST, *ANSWERS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
WORDS = ("√d_k", "padding", "twice", "pre-LN", "large are gradients", "Adam")


def test_it_opens_with_one_question_and_one_action():
    assert FIRST.startswith("# Start here: ")
    assert len(re.findall(r"```sh", FIRST)) == 1
    assert len(FIRST.split()) < 150


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
