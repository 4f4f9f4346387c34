"""Text files: what is no text is refused with the reason, and a text comes as it is."""

import hashlib
from functools import partial

import pytest

from npformer.data import PairsTask, Vocabulary
from npformer.data.pretrained import pretrained_width
from npformer.data.textfile import read_lines, read_text
from npformer.errors import DataError

WORDS = "Ünï\tcode, 字 and 😀\u2028 in lines\n\nof a text\x0b"


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
def test_a_text_comes_as_it_is_with_the_digest_of_its_bytes(path, before):
    content = before + WORDS.encode()
    path.write_bytes(content)
    assert read_text(path) == (WORDS, hashlib.sha256(content).hexdigest())


def test_the_line_ends_of_windows_become_line_feeds(path):
    path.write_bytes(b"a\r\nb\r\n\r\nc\rd")
    assert read_text(path).text == "a\nb\n\nc\rd"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n\t\r\n", "a.txt: expected text, got 4 characters of white space alone"),
        ("é".encode("utf-16"), "a.txt: expected a text file, got text in UTF-16; save it as plain text in UTF-8"),
        ("ab".encode("utf-16-be"), r"a.txt: expected a text file, got a binary file \(a byte of 0 at position 0\)"),
        (b"ab\0", r"got a binary file \(a byte of 0 at position 2\); save it as plain text in UTF-8"),
        (b"%PDF-1.7\n\xe2", "got a PDF file"),
        (b"{\\rtf1 a}", "got an RTF file"),
        (b"PK\x03\x04\x14", r"got a ZIP archive \(such as docx, odt or epub\)"),
        (b"\x1f\x8b\x08", "got a file compressed by gzip"),
        (b"\x89PNG\r\n", "got a picture"),
        (b"\xff\xd8\xff\xe0", "got a picture"),
        (b"a\rb\rc\n", r"got 2 carriage returns alone \(CR, the line end of old Macs\) and 1 line feeds; make them "
                        r"line feeds: tr '\\r' '\\n' < OLD > NEW"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_with_the_reason(path, content, message):
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text(path)


def test_lines_end_in_a_line_feed_alone(path):
    path.write_bytes("\ufeffa\u2028b\nc\x0b\r\n".encode())
    assert read_lines(path).lines == ["a\u2028b", "c\x0b\r"]


READERS = [read_text, read_lines, Vocabulary.load, partial(PairsTask.from_tsv, seed=0)]


@pytest.mark.parametrize("read", [*READERS, pretrained_width])
@pytest.mark.parametrize(("name", "kind"), [("missing", "No such file or directory"), (".", "Is a directory")])
def test_a_path_that_is_no_file_is_refused(tmp_path, read, name, kind):
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    text = f"{tmp_path / name}: expected a readable UTF-8 text file, got: {kind}; check the path"
    vectors = f"{tmp_path / name}: expected a readable file of word vectors, got: {kind}"
    assert str(caught.value) == (vectors if read is pretrained_width else text)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": expected at least one line, got an empty file"),
        (b"\xef\xbb\xbf", ": expected at least one line, got an empty file"),
        (b"a\tb\nb\xe9c\n", r", line 2: expected UTF-8, got byte 0xe9 \(invalid continuation byte\); save the file"),
        (b"a\tb\n\xc3", r", line 2: expected UTF-8, got byte 0xc3 \(unexpected end of data\); save the file as UTF-8"),
    ],
)
def test_what_is_empty_or_no_utf_8_is_refused(path, read, content, message):
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"a.txt{message}"):
        read(path)
