"""SVG as text: paths, axes and texts; sheets that are the same everywhere, light and dark.

Equal differences of weight look about equally large. Every token leaves ink on an axis, and none is long.
"""

import re

import numpy as np
import pytest

from npformer.plotting.cells import LEVELS
from npformer.plotting.colours import COLOURS, STYLE
from npformer.plotting.labels import label_width, one_line, token_label
from npformer.plotting.svg import Axis, Drawing, Section, dots, lines, number, sheet, text
from tests.plotting.figures import points, texts, tree


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
    assert {each.get("role") for each in page.iter("svg")} == {None, "img"}
    notes = ["".join(each.itertext()) for each in page.iter("text")][1:-2]
    assert len(notes) == 3
    assert " ".join(notes) == ("a note " * 40).strip()


def cie_lightness(rgb):
    """L* of CIELAB: 0 black, 100 white."""
    values = np.asarray(rgb, dtype=np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    y = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)


def rgb(name, theme):
    return np.array([int(COLOURS[name][theme][i : i + 2], 16) for i in (1, 3, 5)]) / 255


def weights(theme):
    """The colours of weights from 0 to 1: their own over the paper."""
    opacity = np.arange(LEVELS + 1)[:, None] / LEVELS
    return opacity * rgb("weight", theme) + (1 - opacity) * rgb("paper", theme)


@pytest.mark.parametrize("theme", [0, 1])
def test_lightness_of_weights_goes_from_the_paper_s_in_even_steps(theme):
    lightness = cie_lightness(weights(theme)[::4])
    steps = np.abs(np.diff(lightness))
    assert abs(lightness[0] - lightness[-1]) > 60
    assert steps.min() > 0.75 * steps.mean()
    assert steps.max() < 1.25 * steps.mean()


@pytest.mark.parametrize("theme", [0, 1])
def test_hidden_keys_have_a_warm_colour_that_no_weight_has(theme):
    ramp, hidden = weights(theme), rgb("hidden", theme)
    assert np.abs(ramp - hidden).max(axis=1).min() > 0.04
    assert (ramp[:, 2] >= ramp[:, 0] - 0.01).all()  # weights are cool throughout
    assert hidden[0] > hidden[2] + 0.04


@pytest.mark.parametrize("theme", [0, 1])
def test_texts_and_lines_stand_out_from_the_paper_and_from_each_other(theme):
    def luminance(name):
        return ((cie_lightness(rgb(name, theme)) + 16) / 116) ** 3

    paper = luminance("paper")
    for name in COLOURS.keys() - {"paper", "rule", "hidden"}:
        contrast = (max(paper, luminance(name)) + 0.05) / (min(paper, luminance(name)) + 0.05)
        assert contrast > 4.5, name
    for one, other in [("c0", "c1"), ("c2", "c3")]:  # those of one chart, for printers without colours, too
        assert abs(cie_lightness(rgb(one, theme)) - cie_lightness(rgb(other, theme))) > 2


def test_every_class_has_a_colour_for_light_and_for_dark():
    light, _, dark = STYLE.partition("@media screen and (prefers-color-scheme:dark)")
    for name, (one, other) in COLOURS.items():
        assert re.search(rf"\.{name}{{color:{one}}}", light)
        assert re.search(rf"\.{name}{{color:{other}}}", dark)
    assert not re.search(r"url\(|@import|https?:", STYLE)


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


def test_wide_characters_take_more_room():
    assert label_width("中中", 10) > label_width("nn", 10) > label_width("n", 10) > 0


def test_a_heading_is_one_line_of_bounded_length():
    assert one_line("reverse: a b\nc", 40) == "reverse: a b↵c"
    assert one_line("run\u202e \x1b", 40) == "run\\u202e \\x1b"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
