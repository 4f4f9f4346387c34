"""Files of word vectors are read in every text format there is, and refused with the line that is broken."""

import tracemalloc

import numpy as np
import pytest

from npformer.data import SPECIAL, Vocabulary
from npformer.data.pretrained import pretrained_width, read_pretrained
from npformer.errors import DataError

VOCABULARY = Vocabulary((*SPECIAL, "king", "at home", "é", "7", "\u00a0", "absent"))
VECTORS = {"king": [0.5, -1.25, 3e-2], "at home": [1, 2, 3], "é": [0, 0, 1], "7": [7, 8, 9], "\u00a0": [4, 5, 6]}
FOREIGN = {"queen": [9, 9, 9], "[MASK]": [8, 8, 8], "Ab\u2028\x85c": [1, 1, 1]}


def line(word, numbers):
    """One line, without its end."""
    return " ".join([word, *map(str, numbers)])


LINES = [line(word, numbers) for word, numbers in (FOREIGN | VECTORS).items()]  # the last is a wanted one
FORMATS = {
    "GloVe": "\n".join(LINES) + "\n",
    "word2vec": "\n".join([f"{len(LINES)} 3", *LINES]) + "\n",
    "fastText, a space at each end": " \n".join([f"{len(LINES)} 3", *LINES]) + " \n",
    "with \\r\\n": "\r\n".join(LINES) + "\r\n",
    "without a last line feed": "\n".join(LINES),
    "with a byte order mark": "\ufeff" + "\n".join(LINES[::-1]),
}


def read(path, text, width=3, dtype="float64"):
    """(the table (V, C) that was −1 everywhere, with what the file wrote; the coverage as a line)."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = np.full((len(VOCABULARY), width), -1, dtype)
    return table, str(read_pretrained(path, VOCABULARY, table))


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_every_format_is_read(path, text):
    table, coverage = read(path, text)
    assert pretrained_width(path) == 3
    for number, piece in enumerate(VOCABULARY.pieces):
        np.testing.assert_array_equal(table[number], VECTORS.get(piece, [-1, -1, -1]), err_msg=piece)
    assert coverage == "5 of 6 covered (83.3 %); missing: 'absent'"


def test_special_pieces_are_left_alone_and_the_first_of_two_equal_words_counts(path):
    table, _ = read(path, "king 1 2 3\nking 4 5 6\n[MASK] 1 1 1\n")
    np.testing.assert_array_equal(table[VOCABULARY.id_of("king")], [1, 2, 3])
    np.testing.assert_array_equal(table[VOCABULARY.id_of("[MASK]")], [-1, -1, -1])


def test_a_word_that_is_no_utf_8_is_passed_over(path):
    table, coverage = read(path, b"\xff\xc3 1 2 3\nking 4 5 6\n")
    assert coverage.startswith("1 of 6 covered")
    np.testing.assert_array_equal(table[VOCABULARY.id_of("king")], [4, 5, 6])


def test_numbers_take_the_tables_dtype(path):
    table, _ = read(path, "king 0.1 1e-300 3\n", dtype="float32")
    np.testing.assert_array_equal(table[VOCABULARY.id_of("king")], np.array([0.1, 0, 3], np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected word vectors as text, got an empty file"),
        (
            b"king\n",
            "a.txt, line 1: expected a word and its numbers, or the number of words and the width, at most 65,536",
        ),
        (b"\nking 1 2 3\n", "a.txt, line 1: expected a word and its numbers"),
        (b"king 1 2\n", r"a.txt, line 1: expected vectors of width C=3, got 2; choose d_model=2, or a file"),
        (b"2 4\nking 1 2 3 4\n", r"a.txt, line 1: expected vectors of width C=3, got 4; choose d_model=4"),
        (b"9 0\nking\n", "a.txt, line 1: expected a word and its numbers"),
        (b"a 1 2 3\nb 1 2\n", "a.txt, line 2: expected a word and 3 numbers, one space apart, got 3 fields: 'b 1 2'"),
        (b"a 1 2 3\n\nb 1 2 3\n", "a.txt, line 2: expected a word and 3 numbers, one space apart, got 0 fields"),
        (b"a 1 2 3\nb 1 2 x\n", "a.txt, line 2: expected a word and 3 numbers, one space apart, got 4 fields"),
        (b"a 1 2 3\nking 1 2 nan\n", "a.txt, line 2: expected a word and 3 numbers"),
        (b"a 1 2 3\nking 1 2 1_0\n", "a.txt, line 2: expected a word and 3 numbers"),
        (b"a 1 2 3\nking 1 2 1.2.3\n", "a.txt, line 2: expected a word and 3 numbers"),
        (b"a 1 2 3\nking 1 2 1e999\n", "a.txt, line 2: expected numbers that float64 can hold"),
        (b"a 1 2 3\n 1 2 3\n", "a.txt, line 2: expected a word and 3 numbers"),
        (b"a 1 2 3\nking\t1\t2\t3\n", "a.txt, line 2: .*one space apart, got 1 fields"),
        (b"3 3\na 1 2 3\nb 1 2 3\n", "a.txt: expected 3 words, as line 1 says, got 2; the file may be cut short"),
        (b"1 3\na 1 2 3\nb 1 2 3\n", "a.txt: expected 1 words, as line 1 says, got 2"),
        (
            b"1000000000 300\na 1 2 3\n",
            "a.txt, line 2: expected a word and 300 numbers, one space apart, as line 1 says",
        ),
        (b"2 3\n", "a.txt, line 2: expected a word and 3 numbers, one space apart, as line 1 says, got 0 fields"),
        (b"5 100000\na 1 2 3\n", "a.txt, line 1: expected a word and its numbers, or .* at most 65,536, got 2 fields"),
        (b"9" * 5000 + b" 3\na 1 2 3\n", "a.txt, line 1: expected vectors of width C=3, got 1"),
        (b"a b c 1 2 3\n", "a.txt, line 1: expected a word and its numbers, or the number of words"),
        (b"a 1 2 3\n" + b"1 " * (1 << 23) + b"1", "a.txt, line 2: expected a line of at most 16,777,216 bytes"),
        (b"3 3\na \x01\x02\xff\n\x00\x80", "a.txt, line 2: .*is it a text file of word2vec, GloVe or fastText"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(path, text, message):
    with pytest.raises(DataError, match=message):
        read(path, text)


def test_a_long_broken_line_is_shown_in_part(path):
    with pytest.raises(DataError, match=r"line 1: expected vectors of width C=3, got 400") as caught:
        read(path, "word" + " 1" * 400)
    assert len(str(caught.value)) < 300
    with pytest.raises(DataError, match=r" \.\.\. .*; is it a text file") as caught:
        read(path, "a 1 2 3\n" + "x" * 100_000)
    assert len(str(caught.value)) < 400


def test_a_large_file_needs_no_memory_of_its_size(path):
    numbers = " ".join(["0.25"] * 50)
    path.write_text("".join(f"word{number} {numbers}\n" for number in range(20_000)))
    table = np.zeros((len(VOCABULARY), 50))
    tracemalloc.start()
    read_pretrained(path, VOCABULARY, table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 20
