"""Text on the page of a trace has a contrast of at least 4.5: every colour of a cell, every state, both themes."""

import re

import pytest

from npformer.pages.document import web_file

LEAST = 4.5
CSS = web_file("trace.css")
LAB = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_OK = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
FROM_OK = ((1.0, 0.3963377774, 0.2158037573), (1.0, -0.1055613458, -0.0638541728), (1.0, -0.0894841775, -1.2914855480))
TO_RGB = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def colours(theme):
    """The page's colours by name: 0 light, 1 dark."""
    found = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", CSS)
    return {name: linear(pair[theme]) for name, *pair in found}


def linear(text):
    parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def times(matrix, x):
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in matrix]


def mixed(one, other, share):
    """color-mix(in oklab, one share, other)."""
    first, second = (times(TO_OK, [c ** (1 / 3) for c in times(LAB, x)]) for x in (one, other))
    cubes = [c**3 for c in times(FROM_OK, [share * a + (1 - share) * b for a, b in zip(first, second, strict=True)])]
    return [min(1.0, max(0.0, c)) for c in times(TO_RGB, cubes)]


def contrast(one, other):
    dim, bright = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (one, other))
    return (bright + 0.05) / (dim + 0.05)


def test_black_on_white_is_21_and_a_mix_ends_at_its_colours():
    white, black, red = linear("#ffffff"), linear("#000000"), linear("#b2182b")
    assert contrast(white, black) == pytest.approx(21)
    assert mixed(red, white, 1) == pytest.approx(red, abs=1e-6)
    assert mixed(red, white, 0) == pytest.approx(white, abs=1e-6)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_level_of_a_cell_can_be_read(theme):
    named = colours(theme)
    for sign in ("pos-cell", "neg-cell"):
        levels = [contrast(named["number"], mixed(named[sign], named["zero"], level / 255)) for level in range(256)]
        assert min(levels) >= LEAST, sign


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_other_text_can_be_read(theme):
    named = colours(theme)
    pairs = [
        (text, ground)
        for text in ("ink", "quiet")
        for ground in ("paper", "panel", "raised")
    ] + [("ink", "lit"), ("up", "paper"), ("down", "paper"), ("pos", "paper"), ("neg", "paper"), ("neg", "panel"),
         ("bug", "paper"), ("bug", "panel"), ("up", "panel")]  # fmt: skip
    for text, ground in pairs:
        assert contrast(named[text], named[ground]) >= LEAST, (text, ground)
    for share in range(256):
        ground = mixed(named["bug"], named["raised"], 0.45 * share / 255)
        assert contrast(named["ink"], ground) >= LEAST, "a node of the graph with a bug"


def test_no_text_is_faded():
    faded = [line for line in CSS.splitlines() if "opacity" in line and "disabled" not in line]
    assert faded == []
