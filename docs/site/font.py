"""The font of the formulas: STIX Two Math, as far as formulas need it, as a file of the site.

Browsers typeset MathML with a font that has a table for mathematics (how high a root is, where an exponent stands).
Many systems have none. The package ziamath brings STIX Two Math, under the SIL Open Font License.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fontTools import subset

from docs.site import places
from docs.site.places import SOURCES

#: The ranges of characters that stay: Latin, Greek, marks, arrows, operators, brackets, letters of mathematics.
RANGES = ((0x20, 0x17F), (0x2B0, 0x3FF), (0x2000, 0x22FF), (0x2308, 0x230B), (0x27E6, 0x27EF), (0x2A00, 0x2A10),
          (0x1D434, 0x1D467), (0x1D6A4, 0x1D71B))  # fmt: skip
FILE = "_font/math.woff"


def write_font() -> None:
    """Write the file, unless it is there."""
    place = SOURCES / FILE
    places.written.add(place)
    if place.exists():
        return
    options = subset.Options(flavor="woff", layout_features=["*"], name_IDs=["*"], drop_tables=["DSIG"])
    found = find_spec("ziamath")
    folder = Path(found.origin or "" if found else "").parent  # the command has asked for the package before
    font = subset.load_font(str(folder / "fonts" / "STIXTwoMath-Regular.ttf"), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes={code for first, last in RANGES for code in range(first, last + 1)})
    subsetter.subset(font)
    place.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(place), options)
