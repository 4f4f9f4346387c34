"""Words and marks apart, and together again."""

import pytest

from npformer.data import MarkedWords
from npformer.data.marked_words import spans

TEXTS = ["soixante-dix-sept", "one thousand, two", "5.3.87", "1. März 1987", "l'an deux", "en_US 3/5/87"]
TOKENIZER = MarkedWords.learn(TEXTS)


def test_marks_are_pieces_of_their_own():
    assert TOKENIZER.tokenize("soixante-dix, 5.3.87") == ["soixante", "-", "dix", ",", "5", ".", "3", ".", "87"]
    assert TOKENIZER.tokenize("en_US 3/5") == ["en", "_", "US", "3", "/", "5"]
    assert TOKENIZER.tokenize("deux ans") == ["deux", "[UNK]"]


@pytest.mark.parametrize("text", ["soixante-dix-sept", "one thousand, two", "1. März 1987", "l'an deux"])
def test_ordinary_text_comes_back(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_pieces_know_their_places():
    for text in TEXTS:
        assert [text[start:stop] for start, stop in spans(text)] == TOKENIZER.tokenize(text)


def test_a_vocabulary_keeps_to_its_bounds():
    assert len(MarkedWords.learn(TEXTS, max_size=10).vocabulary) == 10
    assert MarkedWords.learn(["a-b, a-b, c"], min_count=2).vocabulary.text_pieces == {"a", "b", "-", ","}
