"""SVG as text: paths, axes and texts; sheets that are the same everywhere, light and dark.

Equal differences of weight look about equally large. Every token leaves ink on an axis, and none is long.
"""

import numpy as np
import pytest

from npformer.see.plot.svg import (
    COLOURS,
    Axis,
    Drawing,
    Section,
    dots,
    lines,
    number,
    one_line,
    sheet,
    text,
    token_label,
)
from tests.see.plot.figures import points, texts, tree


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.04, "0"), (-0.04, "0"), (0.25, ".2"), (-0.3, "-.3"), (10.3, "10.3"), (100.0, "100"), (0.96, "1")],
)
def test_numbers_are_short(value, written):
    assert number(value) == written


def test_a_line_goes_through_its_points_to_a_tenth_and_stops_at_gaps():
    rng = np.random.default_rng(0)
    pairs = [tuple(pair) for pair in rng.uniform(-50, 400, size=(200, 2))]
    (first, second) = points(lines([*pairs[:90], None, None, *pairs[90:]]))
    for actual, wanted in zip([*first, *second], pairs, strict=True):
        assert actual == pytest.approx(wanted, abs=0.0501), "errors do not add up along the line"
    assert (len(first), len(second)) == (90, 110)
    assert lines([None, (1.0, 2.5), (1.0, 2.0)]) == "M1 2.5l0-.5"
    assert dots([(1.0, 2.5), None, (3.0, 4.0)]) == "M1 2.5h0M3 4h0"


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(2.0, 3.3, False), (0.5, 1.1, True), (1e-4, 20.0, True), (0.35, 1.4, True), (1e-9, 1e9, True), (-3.0, 5.0, False)],
)
def test_any_axis_has_some_round_ticks_between_its_ends(low, high, log):
    ticks = Axis(low, high, 0, 100, log).ticks()
    assert 2 <= len(ticks) <= 10
    assert low * (1 - 1e-9) <= ticks[0] or not log
    assert all(float(f"{tick:.2g}") == pytest.approx(tick) for tick in ticks)


def test_values_stand_between_the_ends():
    assert [Axis(1, 100, 50, 250, log=True).at(value) for value in (0.0, 1, 10, 100)] == [50, 50, 150, 250]
    assert [Axis(0, 4, 100, 0).at(value) for value in (0, 1, 4)] == [100, 75, 0]


def test_nobody_s_text_is_markup_and_every_sheet_is_xml():
    hostile = '</svg><script>alert("1")</script>\u202e\x00\ufffe & '
    drawing = Drawing(100, 50, text(1, 2, hostile), hostile)
    page = sheet(hostile, [hostile], [Section(hostile, hostile, [drawing])])
    assert "<script" not in page
    assert "\u202e" not in page
    assert [node.tag for node in tree(page)][:3] == ["title", "style", "rect"]
    assert "</svg><script>" in tree(page)[0].text


def test_a_sheet_holds_its_title_its_notes_and_its_drawings_one_below_the_other():
    small, high, wide = (
        Drawing(*size, "", name) for *size, name in ((30, 20, "small"), (30, 60, "high"), (700, 40, "wide"))
    )
    page = tree(
        sheet("The title", ["a note " * 40], [Section("One", "remark", [small, high]), Section("", "", [wide])])
    )
    assert texts(sheet("The title", ["note"], []))[:2] == ["The title", "note"]
    places = [(float(each.get("x")), float(each.get("y"))) for each in page.iter("svg") if each.get("x")]
    assert places[0][1] == places[1][1] < places[2][1] - 60
    assert places[1][0] >= places[0][0] + 30
    assert float(page.get("width")) >= 700
    assert [each.get("aria-label") for each in page.iter("svg")][1:] == ["small", "high", "wide"]
    notes = ["".join(each.itertext()) for each in page.iter("text")][1:-2]
    assert len(notes) == 3
    assert " ".join(notes) == ("a note " * 40).strip()


def luminance(name, theme):
    values = np.array([int(COLOURS[name][theme][i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1])
def test_texts_and_lines_stand_out_from_the_paper(theme):
    for name in COLOURS.keys() - {"paper", "rule", "hidden"}:
        low, high = sorted(luminance(each, theme) for each in (name, "paper"))
        assert (high + 0.05) / (low + 0.05) > 4.5, name


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a", "a"),
        (" ", "␣"),
        ("[BOS]", "[BOS]"),  # as everywhere else
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


def test_a_heading_is_one_line_of_bounded_length():
    assert one_line("reverse: a b\nc", 40) == "reverse: a b↵c"
    assert one_line("run\u202e \x1b", 40) == "run\\u202e \\x1b"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
