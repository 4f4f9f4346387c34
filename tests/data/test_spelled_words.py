"""Spelled words: any text is restored, frequent words are one piece, and nothing of known characters is unknown."""

from __future__ import annotations

import pytest

from npformer.data import SPECIAL, SpelledWords
from npformer.data.spelled_words import words_of
from npformer.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat, the cat.", ["The", " cat", ",", " the", " cat", "."]),
        ("a  b\n\nc\t d", ["a", " ", " b", "\n", "\n", "c", "\t", " d"]),
        ("x1987y -- (z)", ["x", "1987", "y", " --", " (", "z", ")"]),
        ("हिन्दी é", ["हिन्दी", " é"]),
        ("a_b\u00a0c \n", ["a", "_", "b", "\u00a0", "c", " ", "\n"]),
        ("", []),
    ],
)
def test_words_have_their_space_before_them(text, words):
    assert words_of(text) == words
    assert [words_of(word) for word in words] == [[word] for word in words], "a word alone is the same word"


def test_frequent_words_are_pieces_and_others_are_spelled():
    tokenizer = SpelledWords.learn("the cat, the dog, the cat\nthe end", 100)
    assert set(tokenizer.vocabulary.pieces) - set(SPECIAL) >= {" the", " cat", " ", "t", "\n"}
    assert " dog" not in tokenizer.vocabulary.pieces, "seen once"
    assert tokenizer.tokenize(" the dog") == [" the", " ", "d", "o", "g"]
    assert tokenizer.tokenize(" the goat€") == [" the", " ", "g", "o", "a", "t", "[UNK]"]
    assert str(tokenizer.coverage(["a€"])) == "1 of 2 covered (50.0 %); missing: '€'"
    assert tokenizer.decode(tokenizer.encode("tthe  \n,ace")) == "tthe  \n,ace"


def test_the_most_frequent_words_come_first_and_size_bounds_them():
    text = "bb bb bb bb aa aa cc cc dd"
    characters = len(SPECIAL) + len(set(text))
    assert SpelledWords.learn(text, characters + 2).vocabulary.pieces[characters:] == (" bb", " aa")
    assert SpelledWords.learn(text, 100).vocabulary.pieces[characters:] == (" bb", " aa", " cc")
    assert SpelledWords.learn("ab", 100, alphabet="xyz").vocabulary.pieces[len(SPECIAL) :] == tuple("abxyz")
    with pytest.raises(ConfigError, match=f"max_pieces: expected at least {characters}, for 7 special pieces and 5 "):
        SpelledWords.learn(text, characters - 1)
