"""Held-out examples at the end of a run: aligned, cut where they are too long, the first difference marked."""

import pytest

from npformer.run import held_out_lines as examples
from npformer.run.held_out_lines import example_lines

LONG = "thirteen thousand eight hundred and ninety-four"
RIGHT = "treize mille huit cent quatre-vingt-quatorze"


@pytest.fixture
def wide(monkeypatch):
    """Lines as for a terminal of so many columns."""

    def at(columns):
        monkeypatch.setattr(examples, "columns", lambda: columns)

    return at


def test_short_examples_stand_on_one_line():
    assert example_lines("bot", "tob", "tob", 5) == ["  bot   → tob"]
    assert example_lines("bot", "tbo", "tob", 3) == ["  bot → tbo   (expected tob)"]


def test_the_first_difference_of_a_wrong_one_is_marked(wide):
    wide(80)
    got = "treize mille huit cents quatre-vingt-quatorze"
    assert example_lines(LONG, got, RIGHT, 47) == [
        f"  {LONG}",
        f"    got       {got}",
        f"    expected  {RIGHT}",
        " " * len("    expected  treize mille huit cent") + "^",
    ]
    assert example_lines(LONG, RIGHT + " et un", RIGHT, 47)[-1].index("^") == 14 + len(RIGHT), "it goes on too long"


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("at", [0, 5, 60, 199])
def test_a_difference_far_to_the_right_comes_into_sight(wide, columns, at):
    wide(columns)
    target = "".join(chr(ord("a") + i % 26) for i in range(200))
    output = target[:at] + "#" + target[at + 1 :]
    lines = example_lines("s" * 300, output, target, 60)
    assert max(map(len, lines)) <= columns
    _, got, expected, mark = lines
    assert (got[mark.index("^")], expected[mark.index("^")]) == ("#", target[at])
    assert lines[0].endswith("…")


def test_a_wide_character_takes_two_columns(wide):
    wide(60)
    *_, mark = example_lines("x" * 60, "年月日a" + "z" * 60, "年月日b" + "z" * 60, 60)
    assert mark.index("^") == 14 + 6
    assert example_lines("年", "n", "n", 4) == ["  年   → n"]
