"""WordPiece cuts after the longest piece that fits, and learns pieces that make the text likelier."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from npformer.data import SPECIAL, Vocabulary, WordPiece
from npformer.data.wordpiece import _CutWords
from npformer.errors import ConfigError

TEXT = "low low low lower lower newest newest newest newest widest widest wide slower slowest aaaa aaaa aaa"


def wordpiece(*pieces):
    """A tokeniser of these pieces."""
    return WordPiece(Vocabulary(("[PAD]", "[UNK]", *pieces)))


def test_words_are_cut_after_the_longest_piece_that_fits():
    tokenizer = wordpiece("want", "##want", "##ed", "wa", "un", "runn", "##ing", "##aff", "##able", "##a")
    assert tokenizer.tokenize("unwanted running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert tokenizer.tokenize("unaffable") == ["un", "##aff", "##able"]
    assert tokenizer.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]
    assert tokenizer.tokenize("") == []


def test_the_longest_piece_is_taken_even_if_the_rest_is_then_unknown():
    assert wordpiece("ab", "a", "##bc").tokenize("abc") == ["[UNK]"]


def test_pieces_within_a_word_are_others_than_at_its_start():
    tokenizer = wordpiece("a", "##b", "#", "###", "##a")
    assert tokenizer.tokenize("ab ba ##b a#b") == ["a", "##b", "[UNK]", "#", "###", "##b", "a", "###", "##b"]
    assert tokenizer.decode(tokenizer.encode("ab ##b a#b")) == "ab ##b a#b"


def test_a_word_that_goes_on_where_none_began_is_joined_all_the_same():
    tokenizer = wordpiece("a", "##b")
    assert tokenizer.decode([3, 3, 2, 3, 1, 3]) == "bb ab [UNK]b"


def test_a_very_long_word_is_cut_like_any_other():
    assert len(wordpiece("a", "##a").tokenize("a" * 200_000)) == 200_000


def test_learning_keeps_every_character_and_fills_the_size():
    characters = sorted(set(TEXT) - {" "})
    least = len(SPECIAL) + 2 * len(characters)
    for size in (least, least + 1, least + 7):
        pieces = WordPiece.learn([TEXT], size).vocabulary.pieces
        assert len(pieces) == size
        assert pieces[: len(SPECIAL)] == SPECIAL
        assert set(characters) | {f"##{c}" for c in characters} <= set(pieces)
    with pytest.raises(ConfigError, match=f"size: expected at least {least}, for 7 special pieces and twice"):
        WordPiece.learn([TEXT], least - 1)


def test_learning_ends_when_no_pair_is_left_or_frequent_enough():
    assert "slowest" not in WordPiece.learn([TEXT], 10_000, min_count=2).vocabulary.pieces
    pieces = WordPiece.learn([TEXT], 10_000, min_count=1).vocabulary.pieces
    assert {"low", "newest", "slowest"} <= set(pieces)
    assert WordPiece.learn([], 50).vocabulary.pieces == SPECIAL


def log_likelihood(cut, counts):
    """Σ over pieces of n·log(n/N), from the cut words alone."""
    n = Counter()
    for pieces, times in zip(cut, counts, strict=True):
        for piece in pieces:
            n[piece] += times
    return sum(count * math.log(count / n.total()) for count in n.values())


def cut_words(text):
    """The words of a text as single characters."""
    words = Counter(text.split())
    alphabet = sorted(set("".join(words)))
    return _CutWords(words, [*alphabet, *(f"##{c}" for c in alphabet)])


@pytest.mark.parametrize("text", [TEXT.replace("aaaa aaaa aaa", ""), "aa aa ab ba cc abab", "xaa xaa yaab aab aac"])
def test_a_merge_adds_to_the_likelihood_what_was_foretold_and_no_other_adds_more(text):
    cut = cut_words(text)
    for size in range(len(cut.pieces) + 1, len(cut.pieces) + 12):
        before = [[cut.pieces[p] for p in word] for word in cut._words]
        likelihood = log_likelihood(before, cut._counts)
        gains = {}
        for left, right in {pair for word in before for pair in pairwise(word)}:
            merged = [_merge_by_hand(word, left, right) for word in before]
            gains[left, right] = log_likelihood(merged, cut._counts) - likelihood
        slots = np.arange(len(cut._slots))
        foretold = dict(zip(cut._slots, cut._gains(slots), strict=True))
        for (left, right), gain in gains.items():
            assert foretold[cut._ids[left], cut._ids[right]] == pytest.approx(gain, abs=1e-9)
        pieces = len(cut.pieces)
        cut.merge_until(size, min_count=1)
        if len(cut.pieces) == pieces:
            assert max(gains.values(), default=0) <= 1e-9
            return
        after = log_likelihood([[cut.pieces[p] for p in word] for word in cut._words], cut._counts)
        assert after - likelihood == pytest.approx(max(gains.values()), abs=1e-9)


def test_neighbours_by_chance_stay_apart():
    letters = "abcde"
    text = " ".join(first + second for first in letters for second in letters)
    assert len(WordPiece.learn([text], 1000, min_count=1).vocabulary) == len(SPECIAL) + 2 * len(letters)


def _merge_by_hand(word, left, right):
    out = []
    for piece in word:
        if out and (out[-1], piece) == (left, right):
            out[-1] = left + piece[2:]
        else:
            out.append(piece)
    return out


def test_no_learnt_beginning_of_a_word_looks_like_what_goes_on():
    cut = cut_words("##ab ##ab ##ab #### #### ###")
    cut.merge_until(100, min_count=2)
    for first, *further in ([cut.pieces[p] for p in word] for word in cut._words):
        assert not first.startswith("##")
        assert all(piece.startswith("##") for piece in further)
    assert "##" not in cut.pieces
