"""Numbers are said as the two languages say them, and text comes back from its pieces."""

import pytest

from npformer.data.real.numbers import numbers
from tests.data.epochs import epoch

SAID = {
    "seventy-seven": "soixante-dix-sept",
    "eighty": "quatre-vingts",
    "eighty-one": "quatre-vingt-un",
    "twenty-one": "vingt et un",
    "seventy-one": "soixante et onze",
}


def test_every_number_is_said_in_french_and_its_pieces_give_the_text_again():
    pytest.importorskip("num2words", reason="numbers are made with num2words")
    task = numbers(below=1_000, count=1_000)
    pairs = dict([*epoch(task), *task.held_out()])
    assert len(pairs) == 1_000
    assert {english: pairs[english] for english in SAID} == SAID
    assert pairs["nine hundred and ninety-nine"] == "neuf cent quatre-vingt-dix-neuf"
    for text in (text for pair in pairs.items() for text in pair):
        assert task.tokenizer.decode(task.tokenizer.encode(text)) == text


def test_numbers_are_drawn_from_all_below_the_bound():
    task = numbers(below=100_000, count=300)
    assert task.train_size + len(task.held_out()) == 300
    assert sum("thousand" in source for source, _ in task.held_out()) > len(task.held_out()) / 2
