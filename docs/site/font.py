"""The font of the formulas: STIX Two Math, as far as formulas need it, as a file of the site.

Browsers typeset MathML with a font that has a table for mathematics (how high a root is, where an exponent stands).
Many systems have none. The package ziamath brings STIX Two Math, under the SIL Open Font License.
"""

from __future__ import annotations

from importlib.resources import files

from fontTools import subset

from docs.site import places
from docs.site.places import SOURCES

#: The ranges of characters that stay: Latin, Greek, marks, arrows, operators, brackets, letters of mathematics.
RANGES = "20-17F,2B0-3FF,2000-22FF,2308-230B,27E6-27EF,2A00-2A10,1D434-1D467,1D6A4-1D71B"
FILE = "_font/math.woff"


def write_font() -> None:
    """Write the file, unless it is there."""
    place = SOURCES / FILE
    places.written.add(place)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        font = files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
        kept = ["--layout-features=*", "--name-IDs=*", "--drop-tables=DSIG"]
        subset.main([str(font), f"--unicodes={RANGES}", "--flavor=woff", *kept, f"--output-file={place}"])
