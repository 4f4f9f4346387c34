"""An explanation as text: its sections, in every width."""

from dataclasses import replace

import pytest

from npformer.see.explain import lines
from npformer.see.explain.explanation import Group, Product, Share, Sums
from npformer.see.explain.paths import PAST, THROUGH, Paths, ResidualPath, ResidualSum
from npformer.see.explain.text import number, share


@pytest.mark.parametrize("width", [40, 60, 79, 100, 160, 400])
def test_no_line_is_wider_than_the_terminal(explained, width):
    text = list(lines(explained, width))
    assert max(map(len, text)) <= max(60, min(width, 160))
    assert not any(line != line.rstrip() for line in text)


def test_the_sections_come_in_order(explained):
    names = [line.split()[0] for line in lines(explained) if line[:1].isalpha()]
    assert names[0] == "w"
    assert [name for name in names if name in ("what", "terms", "why", "up", "paths", "tokens", "means", "next")] == [
        "what", "terms", *["up"] * 9, "paths", "tokens", "means", "next",
    ]  # fmt: skip


def test_bars_are_drawn_in_ascii_where_the_output_has_no_other_letters(explained):
    text = "\n".join(lines(explained, symbols=False))
    assert "█" not in text
    assert "##" in text
    assert "==" in text


def told(explained, **changes):
    """The text of an explanation with other parts."""
    return "\n".join(lines(replace(explained, why=None, up=(), **changes), 160))


@pytest.mark.parametrize(("count", "rest"), [(6, ""), (7, ""), (8, "2 more +3.000e+00; "), (9, "3 more +6.000e+00; ")])
def test_the_largest_products_are_shown_and_the_rest_is_summed(explained, count, rest):
    """Six of them; a seventh has the line that would say so."""
    products = tuple(Product("", f"p{n}", (float(n),), float(n), "", "") for n in range(1, count + 1))
    total = sum(product.value for product in products)
    text = told(explained, terms=Sums("the number", total, (Group("linear", "linear", None, products, total),)))
    shown = [n for n in range(1, count + 1) if f" p{n} " in text]
    assert shown == [*range(1, count + 1)][-(count if count < 8 else 6) :]
    assert f"        {rest}sum {number(total)}\n" in text


def test_the_largest_shares_of_tokens_are_shown_and_the_rest_is_summed(explained):
    parts = tuple(Share(f"t{n}", float(n)) for n in range(12))
    text = " ".join(told(explained, tokens=parts).split())
    assert "from the loss at t11 +1.100e+01, t10 +1.000e+01, " in text
    assert "t4 +4.000e+00, 3 more +6.000e+00; 1 exactly 0" in text


def test_the_strongest_ways_are_shown_and_the_rest_is_summed(explained):
    call = explained.terms.groups[0].call
    ways = tuple(
        ResidualPath(((0, THROUGH if n % 2 else PAST),), value) for n, value in enumerate((8.0, -4.0, 3.0, 2.0, -1.5))
    )
    value = replace(explained, value=explained.value._replace(analytic=7.5)).value
    text = told(explained, value=value, paths=Paths((ResidualSum(call, "decoder", 4.0, 3.5, 0.0),), ways, 0.0, True))
    assert "5 ways in all, the strongest first:" in text
    assert "+3.000e+00 (40 %)  past decoder\n" in text
    assert "+5.000e-01 (7 %)  2 more\n" in text
    assert "+2.000e+00" not in text


def test_numbers_and_shares():
    assert (number(-0.0123456), number(0.0)) == ("-1.235e-02", "0")
    assert (share(1.0, 4.0), share(-1e-20, -4.0)) == ("25 %", "0 %")


@pytest.mark.parametrize(
    ("through", "past", "words"),
    [(4.0, 3.5, "decoder: through 53 %, past 47 %"), (-4.0, 11.5, "decoder: through -4.000e+00, past +1.150e+01")],
)
def test_parts_that_cancel_have_no_shares(explained, through, past, words):
    value = replace(explained, value=explained.value._replace(analytic=7.5)).value
    sums = (ResidualSum(explained.terms.groups[0].call, "decoder", through, past, 0.0),)
    ways = tuple(ResidualPath(((0, way),), part) for way, part in ((THROUGH, through), (PAST, past)))
    text = told(explained, value=value, paths=Paths(sums, ways, 0.0, True))
    assert words in text
    assert ("%" in text) == (through > 0)
