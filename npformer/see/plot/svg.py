"""SVG as text: colours, labels, numbers, texts, paths and axes; a drawing on a page; and sheets as files of their own.

Colours are classes, so a drawing is light or dark as its reader wishes. Lines take theirs from Okabe & Ito's set, for
colour-blind readers and grey-scale printers; on dark paper they are paler. A weight is its colour over the paper, as
opaque as the weight is large, so that equal differences look about equally large. A weight of exactly 0 has a warm
colour, which no weight has.

Texts are texts, and each drawing is told in words to those who hear it. In the label of a token a sign stands for a
space, a line break or a lone combining mark, which would be invisible. Positions are in pixels from the upper left
corner.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from npformer.errors import OutputError
from npformer.io.output_files import OWN_PICTURE, expect_place, write_file
from npformer.io.printable import escaped, visible

#: Class -> its colour on light paper and on dark paper. The paper itself is "paper".
COLOURS = {
    "paper": ("#ffffff", "#14171c"), "drawn": ("#5b6470", "#9aa5b3"), "ink": ("#1b2027", "#e7ebf0"),
    "rule": ("#dfe3e8", "#323a45"), "warn": ("#a3141f", "#ff8d7d"), "weight": ("#2b2f7f", "#9fb4ff"),
    "hidden": ("#eae4d9", "#3a342a"),
    "c0": ("#0072b2", "#56b4e9"), "c1": ("#c24e00", "#ff9a57"), "c2": ("#007a5a", "#35c79a"),
    "c3": ("#882255", "#e38bb8"), "c4": ("#7a6200", "#e6c945"), "c5": ("#4b4fa8", "#a9aefc"),
    "c6": ("#555555", "#b9b9b9"), "c7": ("#9a1f1f", "#ff8d7d"),
}  # fmt: skip
#: The classes of lines: c0, c1, …
LINES = 8

_SHAPES = """.drawn{font:10.5px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.drawn text{fill:currentColor}
.bold{font-weight:600}
.title{font-size:13px}
.line,.cells path,.frame,.mark{fill:none;stroke:currentColor}
.line{stroke-width:1.8;stroke-linejoin:round}
.dashed{stroke-dasharray:5 3}
.mark{stroke-dasharray:2 3}
.faint{stroke-width:5;opacity:.28}
.pale{stroke-width:1;opacity:.4}
.dots{stroke-width:5.2;stroke-linecap:round}
.cells{shape-rendering:crispEdges}
.bar{fill:currentColor}
.rest{fill-opacity:.4}
"""
_SIGNS = {" ": "␣", "\u00a0": "␣", "\t": "⇥", "\n": "↵", "\r": "↵"}
_LONGEST = 12
#: The width of a wide letter of DejaVu Sans, in units of the font size; and those of narrow signs.
_LETTER_EM = 0.62
_SIGN_EM = {"[": 0.4, "]": 0.4, "/": 0.35}
#: A place; None is a gap in a line.
Point = tuple[float, float] | None
FONT, LETTER = 10.5, 6.2  # pixels: the size of a text, and the usual room of a letter
_EDGE, _GAP, _LINE = 16, 20, 15  # pixels: around a sheet, between drawings, from one line of text to the next
_NARROWEST, _TITLE_LETTER = 480, 8.2
_NO_XML = {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}  # characters that no XML may hold


def _rules(theme: int) -> str:
    """The colour of each class, and of the window around a drawing that is shown alone."""
    rules = [f":root.drawn{{background:{COLOURS['paper'][theme]}}}\n"]
    for name, both in COLOURS.items():
        rules.append(f"{'' if name == 'drawn' else '.drawn '}.{name}{{color:{both[theme]}}}\n")
    return "".join(rules)


def one_style(theme: int) -> str:
    """The style sheet of drawings that are light (0) or dark (1) whatever their reader wishes."""
    return f"{_SHAPES}{_rules(theme)}"


#: What is drawn takes the colour of its class; on paper pages are light.
STYLE = f"{one_style(0)}@media screen and (prefers-color-scheme:dark){{\n{_rules(1)}}}\n"


def token_label(token: str) -> str:
    """The token's label on an axis: at most 12 characters, all of them visible."""
    if token == "":
        return "∅"
    shown = _drawn(token)
    if unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def one_line(text: str, longest: int) -> str:
    """The text as a heading of at most this many characters, on one line."""
    shown = _drawn(text, signs={name: sign for name, sign in _SIGNS.items() if name != " "})
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def label_width(label: str, font_size: float) -> float:
    """The approximate width of the label, in the unit of font_size."""
    letters = sum(1.0 if unicodedata.east_asian_width(c) in "WF" else _SIGN_EM.get(c, _LETTER_EM) for c in label)
    return letters * font_size


def _drawn(text: str, signs: Mapping[str, str] = _SIGNS) -> str:
    """The text with signs for spaces and line breaks; other invisible characters become their number or �."""
    return "".join(
        signs.get(c) or (c if c.isprintable() or unicodedata.category(c) == "Cf" else "\N{REPLACEMENT CHARACTER}")
        for c in visible(text, keep="".join(signs))
    )


class Drawing(NamedTuple):
    """A drawing: its size in pixels, what is in it, and what it says in words."""

    width: float
    height: float
    body: str
    told: str

    def svg(self, place: str = 'class="drawn"') -> str:
        """The drawing within a page, or at a place (attributes) within another."""
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        box = f'viewBox="0 0 {number(self.width)} {number(self.height)}"'
        return f'<svg {place} {size} {box} role="img" aria-label="{escaped(self.told)}">{self.body}</svg>'


class Section(NamedTuple):
    """Drawings beside each other, under a heading with a remark."""

    heading: str
    remark: str
    drawings: Sequence[Drawing]


class Axis(NamedTuple):
    """From values to pixels: low is drawn at start, high at end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value. On a logarithmic axis what is too small is drawn at its lower end."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers between the ends, three to seven."""
        low, high = self.low, self.high
        if self.log:
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
                ticks = [v for e in decades for f in factors if low <= (v := f * 10.0**e) <= high]
                if len(ticks) >= 3:
                    return ticks[:: -(-len(ticks) // 7)]
        raw = (high - low) / 4
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= raw * 0.999)
        return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A number of pixels, to a tenth."""
    return _tenths(round(10 * value))


def _tenths(count: int) -> str:
    shown = f"{abs(count) / 10:g}"
    return "-" * (count < 0) + (shown[1:] if shown.startswith("0.") else shown)


def text(x: float, y: float, thing: object, kind: str = "", anchor: str = "", more: str = "") -> str:
    """A text at a place; anchor: "middle" or "end", if it does not start there; more: SVG within it."""
    kind, anchor = f' class="{kind}"' * bool(kind), f' text-anchor="{anchor}"' * bool(anchor)
    return f'<text x="{number(x)}" y="{number(y)}"{kind}{anchor}>{escaped(thing)}{more}</text>'


def path(kind: str, d: str) -> str:
    """A path; none if it is empty."""
    return f'<path class="{kind}" d="{d}"/>' if d else ""


def lines(points: Iterable[Point]) -> str:
    """A path along points, from gap to gap."""
    moves, last = [], None
    for point in points:
        here = None if point is None else (round(10 * point[0]), round(10 * point[1]))
        if here is not None:
            move = here if last is None else (here[0] - last[0], here[1] - last[1])
            moves.append(("l" if last else "M") + _tenths(move[0]) + " " * (move[1] >= 0) + _tenths(move[1]))
        last = here
    return "".join(moves)


def dots(points: Iterable[Point]) -> str:
    """A path of no length at each point, whose ends are round."""
    return "".join(f"M{number(point[0])} {number(point[1])}h0" for point in points if point is not None)


def sheet(title: str, notes: Sequence[str], sections: Sequence[Section], style: str = STYLE) -> str:
    """A file of sections, one below the other, with a title and lines of notes."""
    wide = [sum(each.width for each in drawn) + _GAP * (len(drawn) - 1) for _, _, drawn in sections]
    headings = [_TITLE_LETTER * len(heading) + LETTER * len(remark) for heading, remark, _ in sections]
    width = max([_NARROWEST, *wide, *headings]) + 2 * _EDGE
    parts, y = [], float(_EDGE)
    shown = one_line(title, 400)
    headed = [(line, "title ink bold") for line in wrap(shown, int((width - 2 * _EDGE) / _TITLE_LETTER))]
    noted = [line for note in notes for line in wrap(one_line(note, 2000), int((width - 2 * _EDGE) / LETTER))]
    for line, kind in [*headed, *((line, "") for line in noted)]:
        y += _LINE
        parts.append(text(_EDGE, y, line, kind))
    for heading, remark, drawn in sections:
        y += _GAP
        if heading:
            parts.append(text(_EDGE, y, heading, "title ink bold"))
            parts.append(text(width - _EDGE, y, remark, anchor="end"))
            y += 8
        x = float(_EDGE)
        for each in drawn:
            parts.append(each.svg(f'x="{number(x)}" y="{number(y)}"'))
            x += each.width + _GAP
        y += max((each.height for each in drawn), default=0.0)
    wide_high = number(width), number(y + _EDGE)
    return (
        f'{OWN_PICTURE.decode()} class="drawn" width="{wide_high[0]}" height="{wide_high[1]}" '
        f'viewBox="0 0 {" ".join(wide_high)}"><title>{escaped(shown)}</title><style>{style}</style>'
        f'<rect class="paper bar" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    ).translate(_NO_XML)


def check_place(path: Path) -> None:
    """Raise OutputError unless a picture may be written at path.

    An existing picture may be replaced, since it can be drawn again; any other file may not.
    """
    if path.suffix.lower() != ".svg":
        raise OutputError(f"picture: expected a file name ending in .svg, got '{path}'; rename it")
    expect_place(path, "picture", OWN_PICTURE)


def write_sheet(path: Path, title: str, notes: Sequence[str], sections: Sequence[Section]) -> None:
    """Write a sheet to path as SVG, atomically. Raises OutputError if that fails."""
    write_file(path, "picture", sheet(title, notes, sections).encode())
