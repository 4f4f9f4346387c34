"""Sentences that state a quantity: each stands on its page as quantities.md lists it, and agrees with its source.

A source is a test, or an expression that is true and has the sentence's numbers; in it ``cell`` reads an experiment's
table. Generated parts of a page need none.
"""

import ast
import json
import math  # noqa: F401  this and others are of expressions
import re

import numpy as np  # noqa: F401
import pytest

from examples.experiments import gradient_sizes as sizes  # noqa: F401
from npformer.check.verdict import CENTRAL_TOLERANCE, TOLERANCE  # noqa: F401
from npformer.lab.lessons import LESSONS
from npformer.lab.museum.bugs import BUGS, bug  # noqa: F401
from npformer.lab.museum.stored import AMONG, stored  # noqa: F401
from npformer.see.explain import change, paths, run  # noqa: F401
from tests.markdown import ROOT, text_of

#: A number other than 0 and 1, of which identities are made; or a word for one.
QUANTITY = re.compile(
    r"(?<![\w√./=])(?!(?:[01]|1/)(?![\d.]*\d))\d[\d.,]*|\b(?:half|quarter|a tenth|a fifth|twelfth|eight|nine|ten|"
    r"twelve|forty|seventy|hundred|thousand|(?:three|five) times|twice (?:as|that|what)|most (?:of|queries|scores))\b",
    re.IGNORECASE,
)
#: Page -> {sentence, or a part of it: source}.
LISTED = {
    name: dict(re.findall(r"^\| (.*) \| `(.*)` \|$", rows, re.M))
    for name, rows in re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text_of("tests/docs/quantities.md"), re.S | re.M)
}


def cell(experiment, title, row, column):
    """A number of a table that an experiment printed."""
    path = ROOT / "benchmarks" / "results" / f"experiment-{experiment}.json"
    head, *rest = json.loads(path.read_text(encoding="utf-8"))["output"]
    while not head.startswith(title):
        head, *rest = rest
    found = next(line for line in rest if line.startswith(row))
    return float(re.split("  +", found)[re.split("  +", head).index(column)])


def text_of_page(name):
    """The prose of a page, of the lessons or of the museum's stories, without what is generated."""
    if name == "lessons":
        return "\n\n".join(x for one in LESSONS for x in (one.idea, *(s.text for _, steps in one.parts for s in steps)))
    if name == "museum":
        return "\n\n".join(f"{one.story}\n\n{one.instead}" for one in BUGS)
    prose = re.sub(r"<!-- generated .*?<!-- end -->|^```.*?^```$|<img.*?>", "", text_of(name), flags=re.S | re.M)
    return re.sub(r"^#.*$|^- \[.*\)$", "", prose, flags=re.M)


def faults(name, text, listed):
    """What is wrong with a page's quantities."""
    flat = " ".join(text.split())
    for said, source in listed.items():
        if said not in flat:
            yield f"{name} does not say: {said}"
        elif not holds(said, source):
            yield f"{said}: not so by {source}"
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=\| )", text))
    for sentence in (each for block in blocks for each in re.split(r"(?<=[.!?]) (?=[A-Z`*\[λ√])", block)):
        states = QUANTITY.search(re.sub(r"`[^`]*`|\]\([^)]*\)", "", sentence)) and not sentence.endswith("?")
        if states and not any(said in sentence for said in listed):
            yield f"{name}: not listed: {sentence}"


def holds(said, source):
    """Whether a source is there, or true and of the sentence's numbers."""
    path, is_test, test = source.partition("::")
    if not is_test:
        return numbers(said) <= numbers(source) and bool(eval(source))
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def numbers(text):
    """The numbers in a text but 0 and 1, those in words, too."""
    found = re.findall(r"(?<![\w.])\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?", text)
    words = {WORDS[each] for each in re.findall("|".join(WORDS), text.lower())}
    return words.union(float(each.replace(",", "").replace("_", "")) for each in found) - {0, 1}


WORDS = {"half": 0.5, "a tenth": 0.1, "a fifth": 0.2, "five times": 5, "three times": 3, "eight": 8, "hundred": 100,
         "twice": 2, "seventy": 70, "nine": 9}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_every_sentence_that_states_a_quantity_has_its_source(name):
    assert list(faults(name, text_of_page(name), LISTED[name])) == []


@pytest.mark.parametrize(
    ("old", "new", "in_list", "said"),
    [
        ("below 0.001", "below 0.01", False, "does not say: all its scores have gradients below 0.001"),
        ("below 0.001", "below 0.01", True, "all its scores have gradients below 0.01: not so by sizes.NOTHING"),
        ("helps post-LN only a little", "helps post-LN only a little, by half", False, "not listed: "),
        ("_and_the_others_more", "", True, "such a query learns nothing: not so by"),
    ],
)
def test_a_false_sentence_is_found(old, new, in_list, said):
    """On a copy: a page departs from the list, both from their source, a sentence has none, a test left."""
    name = "docs/start-here.md"
    text, listed = text_of_page(name).replace(old, new), dict(LISTED[name])
    if said.startswith("not listed"):
        text += "\n\nWithout it, half of all queries learn nothing."
    if in_list:
        listed = {a.replace(old, new): b.replace(old, new) for a, b in listed.items()}
    assert any(said in fault for fault in faults(name, text, listed))
