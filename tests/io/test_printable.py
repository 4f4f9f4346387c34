"""Nothing that is printed moves the cursor, turns round what stands beside it, or hides; letters stay."""

import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from npformer.io.printable import shell_words, visible

HIDDEN = [
    *map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)),  # C0, DEL, C1
    "\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)),  # direction
    "\u2028", "\u2029", "\u200b", "\u2060", "\ufeff", "\u00ad", "\U000e0041", "\ud800", "\udc80",
]  # fmt: skip


@pytest.mark.parametrize("character", HIDDEN, ids=[f"U+{ord(c):04X}" for c in HIDDEN])
def test_what_is_no_letter_is_shown_by_its_number(character):
    shown = visible(f"a{character}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown[:2] == "a\\"
    assert shown[-1] == "b"
    assert eval(f"'{shown}'") == f"a{character}b", "Python's own spelling"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("gnp.\u202etxt", "gnp.\\u202etxt"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("a\\nb", "a\\nb"),
        ("pay\u200dpal", "pay\\u200dpal"),  # a joiner joins no letters of ASCII
        ("\u200dم", "\\u200dم"),  # nor a letter and nothing
        ("م\u200c\u200cن", "م\\u200c\\u200cن"),  # nor another joiner
    ],
)
def test_spelling(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain", "früh", "e\u0301", "שלום", "مرحبا", "می\u200cخواهم", "क्\u200dष", "👩\u200d🔬",
        "❤\ufe0f\u200d🔥", "語\u3000語", "1\u00a0000",
    ],
)  # fmt: skip
def test_text_of_every_script_stays(text):
    assert visible(text) == text


def test_of_what_unicode_calls_control_or_format_the_drawn_signs_alone_pass():
    unseen = (
        c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    )
    passing = {unicodedata.name(c) for c in unseen if visible(c) == c}
    assert passing == {
        "ARABIC NUMBER SIGN", "ARABIC SIGN SANAH", "ARABIC FOOTNOTE MARKER", "ARABIC SIGN SAFHA", "ARABIC SIGN SAMVAT",
        "ARABIC NUMBER MARK ABOVE", "ARABIC END OF AYAH", "SYRIAC ABBREVIATION MARK", "ARABIC POUND MARK ABOVE",
        "ARABIC PIASTRE MARK ABOVE", "ARABIC DISPUTED END OF AYAH", "KAITHI NUMBER SIGN", "KAITHI NUMBER SIGN ABOVE",
    }  # fmt: skip


WORDS = [
    "plain", "", "two words", "it's", 'a "b" $HOME `c` \\ !', "-5", "~", "früh 語",
    "anan\nananin", "tab\there", "\r\n", "it's\n\\n", "a\u2028b", "\x1b[2J\x07", "\u202egnp", "x\x01" + "7",
    "\udc80raw", "می\u200cخواهم\n", "pay\u200dpal",
]  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_words_for_a_shell_are_read_as_they_were(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    line = shell_words(*WORDS)
    assert visible(line) == line, "it can be printed and pasted"
    read = subprocess.run([shell, "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    assert read.split(b"\0")[:-1] == [os.fsencode(word) for word in WORDS]


def test_only_words_that_cannot_be_seen_need_a_newer_shell():
    assert shell_words("npformer", Path("a b"), "it's", "früh") == """npformer 'a b' 'it'"'"'s' 'früh'"""
    assert shell_words("a\nb", "\u2028'") == r"$'a\nb' $'\342\200\250\''"
