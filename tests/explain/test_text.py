"""An explanation as text: its sections, in every width."""

import pytest

from npformer.explain import lines
from npformer.explain.text import number, share


@pytest.mark.parametrize("width", [40, 60, 79, 100, 160, 400])
def test_no_line_is_wider_than_the_terminal(found, width):
    text = list(lines(found, width))
    assert max(map(len, text)) <= max(60, min(width, 160))
    assert not any(line != line.rstrip() for line in text)


def test_the_sections_come_in_order(found):
    names = [line.split()[0] for line in lines(found) if line[:1].isalpha()]
    assert names[0] == "w"
    assert [name for name in names if name in ("what", "terms", "why", "up", "paths", "tokens", "means", "next")] == [
        "what", "terms", *["up"] * 9, "paths", "tokens", "means", "next",
    ]  # fmt: skip


def test_bars_are_drawn_in_ascii_where_the_output_has_no_other_letters(found):
    text = "\n".join(lines(found, symbols=False))
    assert "█" not in text
    assert "##" in text
    assert "==" in text


def test_numbers_and_shares():
    assert (number(-0.0123456), number(0.0)) == ("-1.235e-02", "0")
    assert (share(-1.0, 4.0), share(-1e-20, 4.0), share(0.5, 0.0)) == ("-25 %", "0 %", "+5.000e-01")
