"""The colours of all drawings, light and dark, and their style sheet.

Lines take theirs from Okabe & Ito's set, for colour-blind readers and grey-scale printers; on dark paper they are
paler. A weight is its colour over the paper, as opaque as the weight is large, so that equal differences look about
equally large. A weight of exactly 0 has a warm colour, which no weight has.
"""

from __future__ import annotations

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
