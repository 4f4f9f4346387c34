"""A vocabulary round-trips through its file and refuses what it cannot represent."""

import re

import pytest

from npformer.data import BOS_ID, EOS_ID, PAD_ID, Characters, Vocabulary
from npformer.errors import ConfigError, DataError, OutputError, TokenError
from tests.failing_system import full_disk

SPECIAL = ("[PAD]", "[BOS]", "[EOS]")
NASTY = " \n\t\r\v\f\x00\x1c\x1d\x1e\x85\u2028\u2029\u00a0\ufeff\u0301e\u00e9\U0001f600[]#"


def test_special_pieces_come_first_and_characters_are_sorted_once():
    vocabulary = Vocabulary.from_characters("banana")
    assert vocabulary.pieces == (*SPECIAL, "a", "b", "n")
    assert (PAD_ID, BOS_ID, EOS_ID) == (0, 1, 2)
    assert len(vocabulary) == 6
    assert Vocabulary.from_characters(["ban", "", "an"]) == vocabulary


def test_nasty_characters_survive_a_round_trip(path):
    vocabulary = Vocabulary.from_characters(NASTY)
    vocabulary.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == vocabulary
    assert Characters(loaded).decode(Characters(loaded).encode(NASTY)) == NASTY


def test_the_line_number_is_the_id(path):
    Vocabulary.from_characters("a\u2028\n\r").save(path)
    assert path.read_bytes() == "[PAD]\n[BOS]\n[EOS]\n[LF]\n\r\na\n\u2028\n".encode()


def test_a_mark_at_the_start_and_a_missing_last_line_feed_are_accepted(path):
    path.write_bytes(b"\xef\xbb\xbf[PAD]\n[BOS]\n[EOS]\na")
    assert Vocabulary.load(path).pieces == (*SPECIAL, "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "line 1: expected the special piece '[PAD]', got 'a'"),
        (b"[PAD]\n[EOS]\n[BOS]\n", "line 2: expected the special piece '[BOS]', got '[EOS]'"),
        (b"[PAD]\n[BOS]\n", "line 3: expected the special piece '[EOS]', got 'nothing'"),
        (b"[PAD]\r\n[BOS]\r\n", r"line 1: expected the special piece '[PAD]', got '[PAD]\r'; end lines with \n alone"),
        (b"[PAD]\n[BOS]\n[EOS]\na\nb\na\n", "line 6: 'a' already has id 3"),
        (b"[PAD]\n[BOS]\n[EOS]\n[PAD]\n", "line 4: '[PAD]' already has id 0"),
        (b"[PAD]\n[BOS]\n[EOS]\na\n\nb\n", "line 5: expected a piece, got an empty line"),
        (b"[PAD]\n[BOS]\n[EOS]\na\n\n", "line 5: expected a piece, got an empty line"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(path, content, message):
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(f"a.txt, {message}")):
        Vocabulary.load(path)


BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def test_which_special_pieces_a_file_needs_is_its_users_to_say(path):
    path.write_text("[PAD]\nthe\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##s\n")
    vocabulary = Vocabulary.load(path, special=BERT)
    assert [vocabulary.id_of(piece) for piece in BERT] == [0, 2, 3, 4, 5]
    assert vocabulary.special_ids == {0, 2, 3, 4, 5}
    assert vocabulary.text_pieces == {"the", "##s"}
    with pytest.raises(DataError, match=r"a\.txt, line 2: expected the special piece '\[BOS\]', got 'the'"):
        Vocabulary.load(path)


@pytest.mark.parametrize("missing", BERT[1:])
def test_a_missing_special_piece_is_named_with_the_line_where_the_file_ends(path, missing):
    path.write_text("".join(f"{piece}\n" for piece in (*BERT, "a") if piece != missing))
    with pytest.raises(
        DataError, match=rf"a\.txt, line 6: expected the special piece '\{missing[:-1]}\]' before the end"
    ):
        Vocabulary.load(path, special=BERT)


def test_a_file_with_the_wrong_line_ends_says_so_for_every_special_piece(path):
    path.write_bytes(b"[PAD]\n[UNK]\r\na\r\n")
    with pytest.raises(DataError, match=r"expected the special piece '\[UNK\]' .*, got none; end lines with"):
        Vocabulary.load(path, special=("[PAD]", "[UNK]"))


def test_the_id_of_a_piece_that_is_not_there_is_refused():
    message = "'[CLS]' is not in the vocabulary of 4 pieces, of which [PAD], [BOS], [EOS] are special; build it with"
    with pytest.raises(TokenError, match=re.escape(message)):
        Vocabulary.from_characters("a").id_of("[CLS]")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (("a",), "piece 0: expected the special piece"),
        ((*SPECIAL, "a", "a"), "piece 4: 'a' already has id 3"),
        ((*SPECIAL, ""), "piece 3: expected a piece"),
        ((*SPECIAL, "a", "b\n"), "piece 4: .* cannot be one line"),
        ((*SPECIAL, "[LF]"), "piece 3: '\\[LF\\]' is how a file writes the line feed"),
        (("[PAD]", "a", "[BOS]"), "piece 1: expected the special piece '\\[BOS\\]', got 'a'"),
        (("[PAD]", "[BOS]", "a", "[EOS]"), "piece 2: expected the special piece '\\[EOS\\]', got 'a'"),
        ((*SPECIAL, "\ud800"), "piece 3: .* cannot be one line"),
    ],
)
def test_pieces_that_a_file_could_not_hold_are_refused(pieces, message):
    with pytest.raises(ConfigError, match=message):
        Vocabulary(pieces)


def test_saving_never_overwrites(path):
    path.write_text("precious")
    with pytest.raises(OutputError, match="expected a new file, but it exists"):
        Vocabulary.from_characters("a").save(path)
    assert path.read_text() == "precious"


def test_a_write_that_fails_leaves_no_half_file(path, monkeypatch):
    full_disk(monkeypatch)
    with pytest.raises(OutputError, match="No space left on device"):
        Vocabulary.from_characters("a").save(path)
    assert not path.exists()
