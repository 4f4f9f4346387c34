"""Tokenisers: what is encoded decodes to itself, what cannot be is [UNK] and counted, and nothing crashes."""

from collections import Counter

import numpy as np
import pytest

from npformer.data import SPECIAL, Characters, Coverage, MarkedWords, SpelledWords, Vocabulary, WordPiece, Words
from npformer.data.marked_words import spans
from npformer.data.spelled_words import words_of
from npformer.data.tokenizer import as_texts
from npformer.errors import ConfigError, TokenError

#: Code points: ASCII, Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, kana, Chinese, Korean, emoji,
#: combining marks, and signs that tokenisers trip over.
ALPHABETS = [
    "".join(map(chr, range(first, last)))
    for first, last in [
        (0x21, 0x7F), (0xC0, 0x180), (0x391, 0x3C9), (0x410, 0x450), (0x5D0, 0x5EB), (0x620, 0x64B), (0x905, 0x94E),
        (0xE01, 0xE3B), (0x3041, 0x3097), (0x4E00, 0x4E80), (0xAC00, 0xAC60), (0x1F600, 0x1F640), (0x300, 0x340),
    ]
] + ["#", "#a", "[]PADUNKCLSEMO", "\\n\\t#\"'", "\u200b\ufeff\u0301e\ufe0f\u200d"]  # fmt: skip
SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u2028", "\r\n", "\u3000"]

LEARNERS = {
    "characters": Characters.learn,
    "words": Words.learn,
    "wordpiece": lambda texts: WordPiece.learn(texts, 2000),
    "spelled": lambda texts: SpelledWords.learn("\n".join(as_texts(texts)), 2000),
}
EXACT = ("characters", "spelled")  # white space is restored, too
EVERY_KIND = pytest.mark.parametrize("kind", LEARNERS)


def random_texts(alphabet, seed, count=20):
    """Texts of random words, with white space of every kind between and around them."""
    rng = np.random.default_rng(seed)

    def word():
        return "".join(rng.choice(list(alphabet), rng.integers(1, 9)))

    def text():
        return "".join(word() * int(rng.integers(0, 2)) + str(rng.choice(SPACES)) for _ in range(rng.integers(1, 12)))

    return [text() for _ in range(count)]


@EVERY_KIND
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=lambda alphabet: f"U+{ord(alphabet[0]):04X}")
def test_text_of_any_alphabet_comes_back(kind, alphabet):
    texts = random_texts(alphabet, seed=len(alphabet))
    tokenizer = LEARNERS[kind](texts)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == (text if kind in EXACT else " ".join(text.split()))
        assert tokenizer.glue.join(tokenizer.units(text)) == tokenizer.decode(ids)
        assert tokenizer.vocabulary.special_ids.isdisjoint(ids), "text never becomes a special piece"
        assert [tokenizer.vocabulary.pieces[token] for token in ids] == tokenizer.tokenize(text)
    assert not tokenizer.coverage(texts).missing


@EVERY_KIND
def test_foreign_text_is_unknown_counted_and_no_crash(kind):
    tokenizer = LEARNERS[kind](["some plain text", "and some more text"])
    for number, alphabet in enumerate(ALPHABETS):
        for text in random_texts(alphabet, seed=number, count=5):
            coverage = tokenizer.coverage([text])
            unknown = tokenizer.encode(text).count(tokenizer.vocabulary.id_of("[UNK]"))
            assert unknown == coverage.missing.total()
            assert coverage.covered + unknown == coverage.total
            assert tokenizer.decode(tokenizer.encode(text)).count("[UNK]") >= unknown


@EVERY_KIND
def test_the_name_of_a_special_piece_is_text_like_any_other(kind):
    text = "the [MASK] and [LF] [UNK] [PAD] [EOS] of it"
    tokenizer = LEARNERS[kind]([text] * 3)
    ids = set(tokenizer.encode(text))
    allowed = {tokenizer.vocabulary.id_of("[UNK]")} if kind == "words" else set()
    assert ids & tokenizer.vocabulary.special_ids == allowed
    if kind != "words":
        assert tokenizer.decode(tokenizer.encode(text)) == text


@EVERY_KIND
def test_a_vocabulary_file_round_trips(kind, tmp_path):
    text = "The cat sat.\n\n  The  cat, the cat_7 of 1987!\tह​िन्दी don't [PAD] [LF]\r\n" * 2
    tokenizer = LEARNERS[kind]([text])
    tokenizer.vocabulary.save(tmp_path / "v")
    again = type(tokenizer)(Vocabulary.load(tmp_path / "v", special=SPECIAL))
    assert again.encode(text) == tokenizer.encode(text)
    assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@EVERY_KIND
def test_the_order_of_texts_changes_nothing(kind):
    texts = random_texts("abcde", seed=3, count=40)
    assert LEARNERS[kind](texts).vocabulary == LEARNERS[kind](texts[::-1]).vocabulary


@pytest.mark.parametrize("kind", [Characters, Words, WordPiece, SpelledWords])
def test_without_unk_the_unknown_part_is_refused(kind):
    tokenizer = kind(Vocabulary(("[PAD]", " ", "a", "b")))
    with pytest.raises(TokenError, match=r"'é' .*(has no pieces|is not) in the vocabulary"):
        tokenizer.encode("a é")
    with pytest.raises(TokenError, match=r"'é' in 'é' has no pieces in the vocabulary, nor has it \[UNK\]"):
        tokenizer.tokenize("é")
    assert tokenizer.coverage(["b é"]).missing["é"] == 1


def test_words_are_learnt_by_frequency_then_by_name():
    texts = ["b b b c", "a a d, c"]
    assert Words.learn(texts).vocabulary.pieces == (*SPECIAL, "b", "a", "c", "d,")
    assert Words.learn(texts, min_count=2).vocabulary.pieces == (*SPECIAL, "b", "a", "c")
    assert Words.learn(texts, max_size=9).vocabulary.pieces == (*SPECIAL, "b", "a")
    with pytest.raises(ConfigError, match="max_size: expected an integer >= 7, got 6"):
        Words.learn(texts, max_size=6)
    with pytest.raises(ConfigError, match="min_count: expected an integer >= 1, got 0"):
        Words.learn(texts, min_count=0)
    assert Words.learn(texts, max_size=7, special=("[PAD]",)).vocabulary.pieces == ("[PAD]", "b", "a", "c", "d,")


def test_special_pieces_stay_out_of_decoded_text_and_the_first_end_ends_it():
    tokenizer = Words.learn(["the cat sat"])
    cls, sep, end, pad = (tokenizer.vocabulary.id_of(piece) for piece in ("[CLS]", "[SEP]", "[EOS]", "[PAD]"))
    ids = [cls, *tokenizer.encode("the dog"), sep, pad, *tokenizer.encode("cat"), end, *tokenizer.encode("sat"), 99]
    assert tokenizer.decode(ids) == "the [UNK] cat"
    for token in (-1, 10):
        with pytest.raises(TokenError, match=f"token id {token} at position 1: expected 0 to 9"):
            tokenizer.decode([cls, token])


def test_coverage_reads_as_a_line_of_a_log():
    assert str(Words.learn(["a b"]).coverage(["a b a", "c d d"])) == ("3 of 6 covered (50.0 %); missing: 'd' × 2, 'c'")
    assert str(Coverage(1000, Counter())) == "1,000 of 1,000 covered (100.0 %)"
    assert str(Coverage(0, Counter())) == "0 of 0 covered"
    assert str(Coverage(20, Counter(map(str, range(12))))).endswith("'5', '6', '7' and 2 more")


TEXTS = ["soixante-dix-sept", "one thousand, two", "5.3.87", "1. März 1987", "l'an deux", "en_US 3/5/87"]
TOKENIZER = MarkedWords.learn(TEXTS)


def test_marks_are_pieces_of_their_own():
    assert TOKENIZER.tokenize("soixante-dix, 5.3.87") == ["soixante", "-", "dix", ",", "5", ".", "3", ".", "87"]
    assert TOKENIZER.tokenize("en_US 3/5") == ["en", "_", "US", "3", "/", "5"]
    assert TOKENIZER.tokenize("deux ans") == ["deux", "[UNK]"]


def test_pieces_know_their_places():
    for text in TEXTS:
        assert [text[start:stop] for start, stop in spans(text)] == TOKENIZER.tokenize(text)


def test_a_vocabulary_keeps_to_its_bounds():
    assert len(MarkedWords.learn(TEXTS, max_size=10).vocabulary) == 10
    assert MarkedWords.learn(["a-b, a-b, c"], min_count=2).vocabulary.text_pieces == {"a", "b", "-", ","}


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
