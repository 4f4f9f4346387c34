"""What was written beside what was expected."""

from __future__ import annotations

import pytest

from npformer.training.told import Piece, Told, aligned, confusions


def spoken(pieces):
    """expected/found, with - for nothing."""
    return " ".join(f"{piece.expected or '-'}{piece.found or '-'}" for piece in pieces)


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        ("", "", ""),
        ("abc", "abc", "aa bb cc"),
        ("abc", "axc", "aa bx cc"),
        ("abc", "ac", "aa b- cc"),
        ("ac", "abc", "aa -b cc"),
        ("ab", "", "a- b-"),
        ("", "ab", "-a -b"),
        ("abcd", "bcde", "a- bb cc dd -e"),
        ("ab", "ba", "ab ba"),
    ],
)
def test_as_few_pieces_as_possible_differ(expected, found, told):
    assert spoken(aligned(expected, found)) == told


def test_both_texts_come_back_from_the_pieces():
    expected, found = "the cat sat on a mat", "a cart sits on the mat"
    pieces = aligned(expected, found)
    assert "".join(piece.expected or "" for piece in pieces) == expected
    assert "".join(piece.found or "" for piece in pieces) == found
    assert sum(not piece.is_right for piece in pieces) == 9


def test_confusions_count_only_what_was_asked():
    told = [
        Told("x", (Piece("a", "b"), Piece("c", "c"), Piece("d", "d", asked=False)), ""),
        Told("y", (Piece("a", "b"), Piece(None, "e")), ""),
    ]
    assert confusions(told) == {("a", "b"): 2, ("c", "c"): 1, (None, "e"): 1}
    assert [each.is_right for each in told] == [False, False]
    assert Told("z", (Piece("d", "d", asked=False),), "").is_right
