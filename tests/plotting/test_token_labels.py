"""Every token leaves ink on an axis, and none is long."""

import pytest

from npformer.plotting.labels import is_special, label_width, one_line, token_label


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a", "a"),
        (" ", "␣"),
        ("[BOS]", "⟨s⟩"),
        ("[EOS]", "⟨/s⟩"),
        ("[UNK]", "⟨?⟩"),
        ("[PAD]", "⟨pad⟩"),
        ("[bos]", "[bos]"),  # text that happens to stand in brackets
        ("\n", "↵"),
        ("two words", "two␣words"),
        ("\x00", "\\x00"),
        ("\u202e", "\\u202e"),
        ("\u2003", "\N{REPLACEMENT CHARACTER}"),  # a wide space
        ("\ue000", "\N{REPLACEMENT CHARACTER}"),  # nobody's letter
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\u0301", "◌\u0301"),  # a lone accent would float over nothing
        ("", "∅"),
        ("$x$", "$x$"),
        ("##ing", "##ing"),
        ("中", "中"),
        ("extraordinarily", "extraordina…"),
    ],
)
def test_token_label(token, label):
    assert token_label(token) == label


def test_only_names_in_capitals_are_special():
    assert is_special("[EOS]")
    assert not any(map(is_special, ["E", "[", "[]", "[e]", "x[EOS]"]))


def test_wide_characters_take_more_room():
    assert label_width("中中", 10) > label_width("nn", 10) > label_width("n", 10) > 0


def test_a_heading_is_one_line_of_bounded_length():
    assert one_line("reverse: a b\nc", 40) == "reverse: a b↵c"
    assert one_line("run\u202e \x1b", 40) == "run\\u202e \\x1b"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
